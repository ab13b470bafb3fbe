"""Measuring a model that answers somewhere: the load, the figures, and what of them may be recorded."""
