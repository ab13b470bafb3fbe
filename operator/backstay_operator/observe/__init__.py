"""Every read of a pass."""
