"""Caches for the results of nodes and tasks."""
