"""`import langgraph` answered with milepost."""
