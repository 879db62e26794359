"""What a graph can be compiled with as its store."""

from __future__ import annotations

from typing import Any

from milepost.types import not_usable


def ensure_valid_store(store: Any) -> Any:
    """`store` itself if nodes can use it; TypeError otherwise.

    A store of another library will do: what is refused is what has no way to get an item.
    """
    is_usable = store is None or hasattr(store, "get") or hasattr(store, "aget")
    if isinstance(store, type) or not is_usable:
        raise not_usable("store", store, "BaseStore or None", "Store")
    return store
