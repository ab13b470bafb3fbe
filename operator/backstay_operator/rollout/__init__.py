"""The rollout machine, pure: what is seen in, what is to be done out, with a reason.

`observation` is what the machine sees, `facts` what it concludes (`deriving` makes them; `judging`, `watching` and
`evaluating` count). `transitions` is the table of its steps, `guards` are the table's questions, `actions` what its
rows do. `capacity` reckons whether the nodes can take a candidate.

`way_back` is the decision tree: `troubles` are what is wrong, `tree` is what the rules want, `ways` what is possible,
`leaving` what is remembered of it. `history` says what can be built again.

`plan` says what each colour shall be, `report` what people read, `decide` is the one entry.
"""
