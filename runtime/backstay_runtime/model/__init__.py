"""Llama-family decoders: configuration, weights and the forward pass."""
