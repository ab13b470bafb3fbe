"""The manifest's evaluation set, computed again and again beside the users' requests."""
