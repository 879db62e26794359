"""Stores in a database: the same logic on SQLite and PostgreSQL."""
