"""Whole databases: dump and load, verify, salvage, re-encrypt."""
