"""Telling people and other systems what happened: once per attempt and transition."""
