"""What other packages reach for in private modules of LangGraph, under the same names."""
