"""The loop of a model and its tools as a graph."""
