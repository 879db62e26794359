"""Databases by their addresses: `sqlite:///file.db`, `postgresql://…`, `redis://…`."""

from __future__ import annotations

import re
from typing import Final

_REDIS: Final = ("redis", "rediss", "valkey", "valkeys", "unix")
"""How an address of Redis begins; `+cluster` may follow."""


def sqlite_file(address: str) -> str | None:
    """The file in an address of SQLite: sqlite:///relative.db, sqlite:////absolute.db. None for an
    address of another database."""
    if not address.startswith("sqlite://"):
        return None
    return address.removeprefix("sqlite://").removeprefix("/")


def is_postgres(address: str) -> bool:
    return address.startswith(("postgres://", "postgresql://"))


def is_redis(address: str) -> bool:
    scheme, separator, _ = address.partition("://")
    return bool(separator) and scheme.removesuffix("+cluster") in _REDIS


def without_password(address: str) -> str:
    """An address, or a text that quotes one, as it may be shown: without passwords and keys."""
    address = re.sub(r"(//[^:/@\s]*):[^@\s]*@", r"\1:***@", address)
    return re.sub(r"(?i)\b((?:password|(?:hex|text)?key)=)[^&\s']*", r"\1***", address)
