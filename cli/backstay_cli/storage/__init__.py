"""The object storage that models are pushed to and read from."""
