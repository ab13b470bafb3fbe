"""Decoding steps of fixed shapes that are recorded once and replayed."""
