"""The contract of a store."""

from __future__ import annotations


class BaseStore:
    """Memory that is shared by threads."""
