"""Every write of a pass."""
