"""Whether the nodes can take a candidate, reckoned before anything is made for it."""
