"""LangGraph's programs, savers and stores together with milepost's.

- `as_langgraph`, `as_langgraph_store`: milepost's storage for LangGraph's graphs.
- `from_langgraph`, `from_langgraph_store`: LangGraph's storage for milepost's graphs.
- `python -m milepost.integrations.langgraph program.py`: a LangGraph program, run by milepost.

The adapters need LangGraph (`pip install 'milepost[langgraph]'`); running its programs does not,
so nothing of it is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.integrations.langgraph._adapters.our_saver_for_theirs import as_langgraph
    from milepost.integrations.langgraph._adapters.stores import (
        as_langgraph_store,
        from_langgraph_store,
    )
    from milepost.integrations.langgraph._adapters.their_saver_for_ours import from_langgraph
else:
    from milepost._internal.lazy_imports import on_demand

    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "as_langgraph": f"{__name__}._adapters.our_saver_for_theirs",
            "as_langgraph_store": f"{__name__}._adapters.stores",
            "from_langgraph": f"{__name__}._adapters.their_saver_for_ours",
            "from_langgraph_store": f"{__name__}._adapters.stores",
        },
    )

__all__ = ["as_langgraph", "as_langgraph_store", "from_langgraph", "from_langgraph_store"]
