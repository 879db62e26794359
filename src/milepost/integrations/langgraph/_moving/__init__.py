"""Threads and items from one library's database to the other's."""
