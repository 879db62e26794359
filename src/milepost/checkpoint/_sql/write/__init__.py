"""A step on its way into the database: prepare, then store."""
