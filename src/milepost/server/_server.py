"""What the routes share: a database, the graphs that may run on it, and what is allowed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from milepost import inspect
from milepost.inspect.parts import is_langgraph, told_plainly, without_tags
from milepost.server._assistants import Assistants
from milepost.server._errors import HttpError, not_found
from milepost.server._runs import Runs
from milepost.server._sse import Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.inspect import Database, ThreadRow
    from milepost.server._routing import Operation


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one answer may hold.

    Examples:
        >>> from milepost.server import Limits
        >>> Limits(streams=10).streams
        10
    """

    value: int = 64 * 1024
    """Characters of a part of a state on the page; what is larger is asked for by its path."""
    answer: int = 64 * 1024 * 1024
    """Bytes of an answer of the Agent Server's routes, which leave nothing out."""
    scanned: int = 20_000
    """Threads that one search reads."""
    streams: int = 100
    """Streams that are open at once."""
    poll: float = 0.5
    """Seconds between two reads of a thread that is followed."""


class Server:
    """One database, served."""

    def __init__(
        self,
        database: Database,
        graphs: Mapping[str, Any],
        *,
        write: bool,
        limits: Limits,
        operations: Sequence[Operation],
    ) -> None:
        if write and not database.writable:
            database.check_writable("A server with write=True")
        self.database = database
        self.write = write
        self.limits = limits
        self.operations = operations
        self.graphs = {
            graph_id: inspect.attached(graph, database) for graph_id, graph in graphs.items()
        }
        self.assistants = Assistants(self.graphs, database)
        self.runs = Runs()
        self.streams = Streams(limits.streams)
        self.changing = threading.Lock()
        """Held while a thread is looked up and then added."""

    # -- threads

    def find_thread(self, thread_id: str) -> ThreadRow | None:
        with told_plainly(self.database.url):
            row = self.database.source.thread_entry(thread_id)
        return None if row is None else replace(row, metadata=without_tags(row.metadata))

    def thread(self, thread_id: str) -> ThreadRow:
        """A thread, without counts; raises a 404 if there is none."""
        found = self.find_thread(thread_id)
        if found is None:
            raise not_found(f"There is no thread '{thread_id}'.")
        return found

    @property
    def threads(self) -> Any:
        """Whole threads, for changes: those of milepost's savers."""
        return self.database.saver.threads  # type: ignore[attr-defined]

    def delete_threads_of(self, assistant_id: str) -> None:
        """Remove all threads that an assistant has run in."""
        while found := inspect.threads(
            self.database, metadata={"assistant_id": assistant_id}, limit=100
        ).items:
            for row in found:
                self.threads.delete(row.thread_id)

    # -- graphs

    def graph(self, graph_id: str) -> Any:
        """A graph; raises a 404 if there is none."""
        if graph_id not in self.graphs:
            raise not_found(f"There is no graph '{graph_id}'.")
        return self.graphs[graph_id]

    def graph_of_thread(self, metadata: Mapping[str, Any]) -> Any | None:
        """The graph that a thread belongs to, by what is stored about it.

        A thread that says nothing belongs to the only graph, if there is one only.
        """
        graph_id = metadata.get("graph_id")
        if isinstance(graph_id, str):
            return self.graphs.get(graph_id)
        return next(iter(self.graphs.values())) if len(self.graphs) == 1 else None

    def check_free(self, row: ThreadRow, graph: Any) -> None:
        """Raise a 409 if a run is on a thread.

        Of LangGraph's graphs the registry does not learn when a run has ended.
        """
        self.runs.claim(row.thread_id)
        if row.status == "running" and not is_langgraph(graph):
            raise HttpError(
                409,
                f"A run is going on in thread '{row.thread_id}'. If its process was killed, the "
                "thread is free again after a minute.",
            )

    def needed_graph(self, thread_id: str, metadata: Mapping[str, Any]) -> Any:
        """The graph that a thread belongs to; raises a 400 if there is none."""
        graph = self.graph_of_thread(metadata)
        if graph is None:
            raise HttpError(
                400,
                f"Thread '{thread_id}' has no graph here: start the server with --graph, and "
                "name it in the thread's metadata as graph_id if there are several.",
            )
        return graph
