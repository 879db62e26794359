"""A full check of a database, without changes: lineage, chains, checksums, every value.

The report names each damaged row, and each value and checkpoint that cannot be read because of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost._db.operations import Operation, Query
from milepost.checkpoint._contract.threads import Problem
from milepost.checkpoint._sql.inline_writes import INLINE_WRITES
from milepost.checkpoint._sql.manifest import EMPTIED, OWN_ROW
from milepost.checkpoint._sql.read.assembler import CheckpointAssembler, by_checkpoint
from milepost.checkpoint._sql.read.fetched import (
    UNREADABLE,
    CheckpointRecord,
    GraphKey,
    Manifests,
    WriteRecord,
    metadata_of,
)
from milepost.checkpoint._sql.read.values import BlobRecord, Resolver
from milepost.errors import BrokenChainError, SerdeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost.checkpoint._sql.manifest import Manifest
    from milepost.checkpoint._sql.read.reader import CheckpointReader


class GraphRows:
    """All rows of one graph of a thread."""

    def __init__(
        self,
        reader: CheckpointReader,
        place: GraphKey,
        checkpoints: Sequence[CheckpointRecord],
        blobs: Sequence[BlobRecord],
        writes: Sequence[WriteRecord],
    ) -> None:
        self.place = place
        self.codec = reader.codec
        self.checkpoints = {row.id: row for row in checkpoints}
        self.blobs = {(row.channel, row.version): row for row in blobs}
        self.writes = writes
        self.manifests = Manifests(self.codec, place, self.checkpoints, self.checkpoints, {})
        self.resolver = Resolver(self.codec, place, blobs, {}, shares=True)
        self.assembler = CheckpointAssembler(
            self.codec, place, self.manifests, by_checkpoint(writes), self.resolver
        )


def graphs(reader: CheckpointReader, thread_id: str) -> Operation[list[GraphRows]]:
    """All rows of a thread, graph by graph."""
    checkpoints = yield Query(reader.q.checkpoints_of, (thread_id,))
    blobs = [row[1:] for row in (yield Query(reader.q.dump_blobs, (thread_id,)))]
    writes = yield Query(reader.q.all_writes_of, (thread_id, thread_id))
    return [
        GraphRows(
            reader,
            (thread_id, ns),
            [CheckpointRecord(*row[1:]) for row in checkpoints if row[0] == ns],
            [BlobRecord(*row[1:]) for row in blobs if row[0] == ns],
            [WriteRecord(*row[1:]) for row in writes if row[0] == ns],
        )
        for ns in dict.fromkeys(row[0] for rows in (checkpoints, blobs, writes) for row in rows)
    ]


def unlisted(reader: CheckpointReader) -> Operation[list[Problem]]:
    """Threads with rows but without an entry in the registry, which no listing finds."""
    rows = yield Query(reader.q.unlisted)
    return [
        Problem(id, "", "threads", id, "it has rows, but no entry in the registry")
        for (id,) in rows
    ]


def thread(reader: CheckpointReader, thread_id: str) -> Operation[list[Problem]]:
    """The problems of one thread."""
    found = yield from graphs(reader, thread_id)
    entries = yield Query(reader.q.head_and_newer, (thread_id,))
    problems: list[Problem] = []
    # In a thread without checkpoints, writes may be early: a foreign runtime puts them first.
    is_begun = any(graph.checkpoints for graph in found) or (entries and entries[0][0] is not None)
    for graph in found:
        check = _Check(graph, problems, may_be_early=not is_begun)
        check.checkpoints()
        check.values()
        check.writes()
        check.orphans()
    head, newer, _ = entries[0] if entries else (None, None, None)
    if newer is not None:
        reason = f"the entry is older than the thread: there is checkpoint '{newer}'"
        problems.append(Problem(thread_id, "", "threads", thread_id, reason))
    if head is not None and not any(g.place[1] == "" and head in g.checkpoints for g in found):
        problems.append(Problem(thread_id, "", "threads", head, "the head is gone"))
    return problems


class _Check:
    def __init__(self, graph: GraphRows, problems: list[Problem], *, may_be_early: bool) -> None:
        self._graph = graph
        self._may_be_early = may_be_early
        self._problems = problems
        self._used: set[tuple[str, str]] = set()

    def _report(self, table: str, key: str, reason: object) -> None:
        self._problems.append(Problem(*self._graph.place, table, key, str(reason)))

    def checkpoints(self) -> None:
        graph = self._graph
        for row in graph.checkpoints.values():
            try:
                metadata_of(graph.codec, *graph.place, row)
                graph.manifests.of(row.id)
            except UNREADABLE as error:
                self._report("checkpoints", row.id, error)
            if row.parent_id is not None and row.parent_id not in graph.checkpoints:
                self._report("checkpoints", row.id, f"its parent '{row.parent_id}' is gone")

    def values(self) -> None:
        graph = self._graph
        for row in graph.blobs.values():
            try:
                graph.resolver.open(row)
            except UNREADABLE as error:
                self._report("checkpoint_blobs", f"{row.channel} {row.version}", error)
        for id in graph.checkpoints:
            try:
                manifest = graph.manifests.of(id).manifest
            except UNREADABLE:
                continue
            for channel, held in manifest.inline.items():
                if held is not EMPTIED and channel in manifest.versions:
                    self._value(id, channel, manifest)

    def _value(self, id: str, channel: str, manifest: Manifest) -> None:
        version = str(manifest.versions[channel])
        if manifest.inline[channel] is OWN_ROW:
            if (channel, version) in self._used:
                return
            self._use(channel, version)
        try:
            self._graph.assembler.channel(manifest, channel)
        except UNREADABLE as error:
            self._report("checkpoint_blobs", f"{channel} {version} of {id}", error)

    def _use(self, channel: str, version: str) -> None:
        key: tuple[str, str] | None = (channel, version)
        while key is not None and key not in self._used:
            self._used.add(key)
            key = self._graph.resolver.base(*key) if key in self._graph.blobs else None

    def writes(self) -> None:
        for id in self._graph.checkpoints:
            try:
                self._graph.assembler.check_writes(id)
            except BrokenChainError as error:
                self._report("checkpoint_writes", id, error)
            except SerdeError:
                pass  # reported with the checkpoint
        for row in self._graph.writes:
            table, key = "checkpoint_writes", f"{row.checkpoint_id} {row.task_id} {row.position}"
            if row.kind == INLINE_WRITES:
                table, key = "checkpoints", row.task_id
            if row.base is not None:
                self._use(row.channel, row.base)
            try:
                for write in self._graph.assembler.writes_in(row):
                    self._graph.assembler.write(write)
            except UNREADABLE as error:
                self._report(table, key, error)
            is_apart = row.checkpoint_id not in self._graph.checkpoints and table != "checkpoints"
            if is_apart and not self._may_be_early:
                self._report(table, key, "its checkpoint is gone")

    def orphans(self) -> None:
        for channel, version in sorted(self._graph.blobs.keys() - self._used):
            self._report("checkpoint_blobs", f"{channel} {version}", "nothing refers to it")
