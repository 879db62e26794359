"""For `langgraph.utils`, which passes on names of LangGraph's `_internal`."""
