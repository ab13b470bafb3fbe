"""Pull and push beside plain transfers of the same objects: `make bench-pull`."""
