"""One module for each family of stored types."""
