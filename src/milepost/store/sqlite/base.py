"""Settings of stores in SQLite, and what they have in common."""

from milepost.store.sqlite import BaseSqliteStore, SqliteIndexConfig, SqliteStore

__all__ = ["BaseSqliteStore", "SqliteIndexConfig", "SqliteStore"]
