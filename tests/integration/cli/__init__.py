"""The command line against a real API server."""
