"""For private modules of `langgraph.pregel`."""
