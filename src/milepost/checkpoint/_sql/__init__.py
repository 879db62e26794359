"""What the SQLite and Postgres savers have in common: everything but the connection."""
