"""Tests against a real MinIO on the loopback interface."""
