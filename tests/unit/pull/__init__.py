"""Tests of the init container that need no network."""
