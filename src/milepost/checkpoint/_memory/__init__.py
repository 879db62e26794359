"""The saver in this process."""
