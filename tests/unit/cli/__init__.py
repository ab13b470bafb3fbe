"""Tests of the command line that need neither storage nor cluster."""
