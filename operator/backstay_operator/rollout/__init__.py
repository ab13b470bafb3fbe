"""The rollout machine, pure: what is seen in, what is to be done out, with a reason.

`observation` is what the machine sees, `facts` what it concludes (`judging` counts the metrics), `transitions` the
table of its steps, `guards` the table's questions, and `at_rest`, `going_forward`, `giving_up`, `soaking` and
`going_back` its actions. `plan` says what each colour shall be, `report` what people read, `decide` is the one entry.
"""
