"""Flax ports of video LLMs."""
