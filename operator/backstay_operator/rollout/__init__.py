"""The rollout machine, pure: what is seen in, what is to be done out, with a reason.

`observation` is what the machine sees, `facts` what it concludes, `transitions` the table of its steps,
`guards` and `actions` the table's words, `decide` the one entry.
"""
