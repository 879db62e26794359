"""Threads in Redis or Valkey: rows in hashes, a step as one script."""
