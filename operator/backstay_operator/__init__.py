"""See the README's map of the code."""
