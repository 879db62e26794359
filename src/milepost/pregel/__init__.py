"""Graphs below `StateGraph`, and graphs that run elsewhere."""
