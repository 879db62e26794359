"""Reading threads: snapshots and history."""
