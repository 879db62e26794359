"""The drivers: they carry out effects, with threads or on an event loop."""
