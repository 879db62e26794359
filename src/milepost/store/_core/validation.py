"""What a graph can be compiled with as its store."""

from __future__ import annotations

from typing import Any


def ensure_valid_store(store: Any) -> Any:
    """`store` itself if nodes can use it; TypeError otherwise.

    A store of another library will do: what is refused is what has no way to get an item.
    """
    if isinstance(store, type):
        raise TypeError(
            f"A store must be an instance, not the class {store.__name__}: pass "
            f"{store.__name__}(...)."
        )
    if store is None or hasattr(store, "get") or hasattr(store, "aget"):
        return store
    hint = ""
    if hasattr(store, "__enter__"):
        hint = _ENTER.format("with SqliteStore.from_conn_string(...) as store:")
    elif hasattr(store, "__aenter__"):
        hint = _ENTER.format("async with AsyncSqliteStore.from_conn_string(...) as store:")
    raise TypeError(f"A store must be a BaseStore or None, not {type(store).__name__}.{hint}")


_ENTER = " It is a context manager: enter it first, as in `{}`."
