"""What LangGraph stores, and the same in our records."""
