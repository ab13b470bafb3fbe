"""Which troubles there are, what the rules say of them, and where that leads."""
