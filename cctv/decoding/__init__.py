"""Decoding: contrastive methods and the engine that runs them."""
