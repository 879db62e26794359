"""What a run is given and what its tasks can reach."""
