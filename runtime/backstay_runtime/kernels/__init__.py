"""The decoder's step for a few rows as machine code: weights are read once, and Python is asked once a step."""
