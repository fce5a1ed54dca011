"""Measurements of speed: one module each, `python -m experiments.bench.NAME` prints JSON."""
