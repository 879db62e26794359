"""What others reach for in LangGraph's private modules, and milepost has no module for."""
