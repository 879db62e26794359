"""One super-step: which tasks run, how each runs, what becomes of their writes."""
