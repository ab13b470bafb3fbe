"""The rollout machine, pure: what is seen in, what is to be done out, with a reason.

`observation` is what the machine sees, `facts` what it concludes (`deriving` makes them; `judging`, `watching` and
`evaluating` count), `transitions` the table of its steps, the `guards` modules the table's questions. The actions are
`at_rest`, `making_room`, `going_forward`, `giving_up`, `soaking`, `going_back`, `returning`, `degrading` and `levers`.

The decision tree of the way back: `troubles` are what is wrong, `tree` is what the rules want, `ways` what is possible;
`leaving` and `lasting` say what is remembered of it, `history` what can be built again.

`plan` says what each colour shall be, `report` what people read, `decide` is the one entry.
"""
