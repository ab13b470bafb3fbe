"""The conditions of the transition table, by the stage of an attempt that they are asked in."""
