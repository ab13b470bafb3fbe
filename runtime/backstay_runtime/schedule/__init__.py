"""Which sequences run in the next step. Pure: no torch, no clock."""
