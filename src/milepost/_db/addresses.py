"""Databases by their addresses: `sqlite:///file.db`, `postgresql://…`, `redis://…`."""

from __future__ import annotations

from typing import Final

_REDIS: Final = ("redis", "rediss", "valkey", "valkeys", "unix")
"""How an address of Redis begins; `+cluster` may follow."""


def sqlite_file(address: str) -> str | None:
    """The file that an address names: sqlite:///relative.db, sqlite:////absolute.db; None if it is
    not one of SQLite's."""
    if not address.startswith("sqlite://"):
        return None
    return address.removeprefix("sqlite://").removeprefix("/")


def is_postgres(address: str) -> bool:
    """Whether an address is one of PostgreSQL's."""
    return address.startswith(("postgres://", "postgresql://"))


def is_redis(address: str) -> bool:
    """Whether an address is one of Redis' or Valkey's."""
    scheme, separator, _ = address.partition("://")
    return bool(separator) and scheme.removesuffix("+cluster") in _REDIS
