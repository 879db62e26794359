"""Removes threads and parts of threads."""

from __future__ import annotations

from milepost.checkpoint.sql.memory import Memory
from milepost.checkpoint.sql.queries import Queries
from milepost.sql.operations import Operation, Run


class Remover:
    """Removes through one dialect's queries."""

    def __init__(self, memory: Memory, queries: Queries) -> None:
        self._memory = memory
        self._q = queries

    def thread(self, thread_id: str) -> Operation[int]:
        """All of a thread; the number of rows that were removed."""
        count = 0
        for sql in (
            self._q.delete_writes,
            self._q.delete_blobs,
            self._q.delete_checkpoints,
            self._q.delete_thread,
        ):
            count += yield Run(sql, (thread_id,))
        return count
