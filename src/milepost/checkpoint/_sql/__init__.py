"""What the savers on SQLite, PostgreSQL and Redis have in common: all but the connection."""
