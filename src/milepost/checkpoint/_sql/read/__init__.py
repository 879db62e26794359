"""Checkpoints on their way back: rows, chains of values, listings."""
