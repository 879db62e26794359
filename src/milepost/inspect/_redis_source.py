"""Threads of a saver on Redis, where a statement is a name and not SQL."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._db.operations import rows_of
from milepost.checkpoint._contract.threads import ThreadFilter
from milepost.checkpoint._redis.names import BLOBS_OF, CHECKPOINT_KEYS, REDIS, TTL_OF
from milepost.inspect._sources import PlainSource, RegisteredThreads, stats_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.inspect._records import Stats


class RedisSource(RegisteredThreads, PlainSource):
    """A saver on Redis. Ids are read without the rows that they name."""

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({ns for ns, _ in self._rows(CHECKPOINT_KEYS, thread_id)})

    def _ids(self, thread_id: str, ns: str) -> list[str]:
        found = (id for graph, id in self._rows(CHECKPOINT_KEYS, thread_id) if graph == ns)
        return sorted(found, reverse=True)

    def line(self, thread_id: str, ns: str) -> list[tuple[str, str | None]]:
        rows = self._rows(REDIS.checkpoints_of, thread_id)
        return sorted((id, parent) for graph, id, parent, *_ in rows if graph == ns)

    def stats(self, thread_id: str | None) -> Stats:
        by_thread: dict[str, list[int]] = {}
        kinds = {"checkpoints": 0, "values": 0, "writes": 0}
        channels: dict[str, int] = {}
        statuses: dict[str, int] = {}
        writes = 0
        for row in self._all(ThreadFilter(limit=1_000_000, prefix=thread_id)):
            id = row.thread_id
            if thread_id not in (None, id):
                continue
            sizes = self._rows(REDIS.thread_size, id, id, id, id)
            counts = {kind: count for kind, count, _ in sizes}
            by_thread[id] = [counts["checkpoints"], sum(size for *_, size in sizes)]
            statuses[row.status] = statuses.get(row.status, 0) + 1
            for kind, _, size in sizes:
                kinds["checkpoints" if kind == "inline writes" else kind] += size
            writes += counts["writes"]
            for _, channel, *_, blob in self._rows(BLOBS_OF, id):
                channels[channel] = channels.get(channel, 0) + len(blob)
        return stats_of(by_thread, writes, kinds, channels, statuses)

    def ttl(self, thread_id: str) -> float | None:
        [(own,)] = self._rows(TTL_OF, thread_id) or [(None,)]
        seconds = self._saver.settings.ttl if own is None else float(own)
        return None if seconds is None or seconds < 0 else seconds / 60

    def _rows(self, name: str, *values: Any) -> Sequence[Any]:
        return self._saver.engine.run(partial(rows_of, name, values), write=False)  # type: ignore[no-any-return]
