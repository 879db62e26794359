"""Drives a compiled graph in either colour, so that a test is written once.

`SyncHarness` calls `invoke`, `stream`, `get_state`…; `AsyncHarness` calls `ainvoke`, `astream`,
`aget_state`… on one event loop that lasts as long as the test.
"""

from __future__ import annotations

import asyncio
from typing import Any


class SyncHarness:
    colour = "sync"

    def invoke(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        return graph.invoke(*args, **kwargs)

    def stream(self, graph: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return list(graph.stream(*args, **kwargs))

    def batch(self, graph: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return graph.batch(*args, **kwargs)

    def get_state(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        return graph.get_state(*args, **kwargs)

    def history(self, graph: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return list(graph.get_state_history(*args, **kwargs))

    def update_state(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        return graph.update_state(*args, **kwargs)

    def bulk_update_state(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        return graph.bulk_update_state(*args, **kwargs)

    def delete_thread(self, graph: Any, *args: Any, **kwargs: Any) -> None:
        graph.delete_thread(*args, **kwargs)

    def saver(self, saver: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the saver itself; `list` comes back as a list."""
        result = getattr(saver, method)(*args, **kwargs)
        return list(result) if method == "list" else result

    def close(self) -> None:
        pass


class AsyncHarness:
    colour = "async"

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def invoke(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        return self._runner.run(graph.ainvoke(*args, **kwargs))

    def stream(self, graph: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return self._runner.run(_collect(graph.astream(*args, **kwargs)))

    def batch(self, graph: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return self._runner.run(graph.abatch(*args, **kwargs))

    def get_state(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        return self._runner.run(graph.aget_state(*args, **kwargs))

    def history(self, graph: Any, *args: Any, **kwargs: Any) -> list[Any]:
        return self._runner.run(_collect(graph.aget_state_history(*args, **kwargs)))

    def update_state(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        return self._runner.run(graph.aupdate_state(*args, **kwargs))

    def bulk_update_state(self, graph: Any, *args: Any, **kwargs: Any) -> Any:
        return self._runner.run(graph.abulk_update_state(*args, **kwargs))

    def delete_thread(self, graph: Any, *args: Any, **kwargs: Any) -> None:
        self._runner.run(graph.adelete_thread(*args, **kwargs))

    def saver(self, saver: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        result = getattr(saver, f"a{method}")(*args, **kwargs)
        return self._runner.run(_collect(result) if method == "list" else result)

    def close(self) -> None:
        self._runner.close()


async def _collect(items: Any) -> list[Any]:
    return [item async for item in items]
