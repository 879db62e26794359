"""Reading checkpoints: rows, chains of values, listings."""
