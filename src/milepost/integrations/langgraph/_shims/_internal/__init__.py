"""For `langgraph._internal`."""
