"""Runs: the phases of an evaluation, its rows and its manifest."""
