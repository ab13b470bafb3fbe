"""The paged key/value cache: which blocks are whose (pure), and the tensor that holds them."""
