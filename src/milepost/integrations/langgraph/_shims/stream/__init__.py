"""For private modules of `langgraph.stream`."""
