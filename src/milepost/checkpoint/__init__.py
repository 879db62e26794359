"""Savers: where the checkpoints of a thread are kept."""
