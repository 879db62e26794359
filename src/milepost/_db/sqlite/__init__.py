"""Operations on SQLite, through sqlite3 or aiosqlite."""
