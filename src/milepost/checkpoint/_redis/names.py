"""The names of statements. On Redis a statement is its name (`transaction.py`)."""

from __future__ import annotations

from typing import Final

from milepost.checkpoint._sql.statements import Statements

_LEFT_OUT: Final = {"latest": "", "newest": ""}
"""A saver on SQL guesses the newest values with these; an empty statement means: no guess."""

REDIS: Final = Statements(**{name: name for name in Statements.__annotations__} | _LEFT_OUT)
"""Every statement of a saver."""

# -- statements that savers on SQL do not have

ENTRIES: Final = "entries"
"""The registry's entries of several threads."""
SET_TTL: Final = "set_ttl"
"""Decide how long a thread lives."""
TTL_OF: Final = "ttl_of"
"""The time to live of a thread, if it has one of its own."""
CHECKPOINT_KEYS: Final = "checkpoint_keys"
"""The namespaces and ids of all checkpoints of a thread."""
