"""Events of a run, and how they reach their consumer."""
