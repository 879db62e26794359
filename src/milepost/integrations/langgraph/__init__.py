"""LangGraph's programs, savers and stores together with milepost's.

- `as_langgraph`, `as_langgraph_store`: milepost's storage for LangGraph's graphs.
- `from_langgraph`, `from_langgraph_store`: LangGraph's storage for milepost's graphs.
- `python -m milepost.integrations.langgraph program.py`: a LangGraph program, run by milepost.

The adapters need LangGraph (`pip install 'milepost[langgraph]'`); running its programs does not,
so nothing of it is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from milepost.integrations.langgraph._adapters.our_saver_for_theirs import as_langgraph
    from milepost.integrations.langgraph._adapters.stores import (
        as_langgraph_store,
        from_langgraph_store,
    )
    from milepost.integrations.langgraph._adapters.their_saver_for_ours import from_langgraph

__all__ = ["as_langgraph", "as_langgraph_store", "from_langgraph", "from_langgraph_store"]

_HOMES: Final = {
    "as_langgraph": "our_saver_for_theirs",
    "as_langgraph_store": "stores",
    "from_langgraph": "their_saver_for_ours",
    "from_langgraph_store": "stores",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from milepost.integrations.langgraph._alias import is_installed
    from milepost.integrations.langgraph._requirement import needed

    if is_installed():
        raise ImportError(
            f"In this process `langgraph` means milepost, so there is nothing for {name} to adapt:"
            " pass milepost's savers and stores to its graphs as they are."
        )
    needed("langgraph.types")
    return getattr(import_module(f"{__name__}._adapters.{_HOMES[name]}"), name)
