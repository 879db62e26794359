"""Threads of a saver on Redis, where a statement is a name and not SQL."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._db.operations import rows_of
from milepost.checkpoint._redis.names import BLOBS_OF, CHECKPOINT_KEYS, REDIS, TTL_OF
from milepost.inspect._sources import KINDS, PlainSource, RegisteredThreads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from milepost.inspect._sources import Measured


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

    _kinds = KINDS

    def _measured(self, thread_id: str) -> Iterator[Measured]:
        for kind, count, size in self._rows(REDIS.thread_size, *[thread_id] * 4):
            if kind == "inline writes":
                yield "checkpoints", thread_id, None, 0, size
            elif kind != "values":
                yield kind, thread_id, None, count, size
        for _, channel, *_, blob in self._rows(BLOBS_OF, thread_id):
            yield "values", thread_id, channel, 1, len(blob)

    def ttl(self, thread_id: str) -> float | None:
        [(own,)] = self._rows(TTL_OF, thread_id) or [(None,)]
        seconds = self._saver.settings.ttl if own is None else float(own)
        return None if seconds is None or seconds < 0 else seconds / 60

    def _rows(self, name: str, *values: Any) -> Sequence[Any]:
        return self._saver.engine.run(partial(rows_of, name, values), write=False)  # type: ignore[no-any-return]
