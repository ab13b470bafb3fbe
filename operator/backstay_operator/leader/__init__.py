"""Which of several operators may act."""
