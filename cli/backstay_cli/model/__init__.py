"""A model as a folder: which files it has, what it is, and its manifest."""
