"""LangGraph's stored formats, and their translation into milepost's records."""
