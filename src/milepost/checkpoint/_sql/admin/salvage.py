"""Reads the undamaged parts of a damaged thread, without changing anything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint._contract.records import CheckpointTuple, PendingWrite, Place
from milepost.checkpoint._sql.admin.verify import GraphRows, graphs
from milepost.checkpoint._sql.inline_writes import INLINE_WRITES
from milepost.checkpoint._sql.read.assembler import first_of_each
from milepost.checkpoint._sql.read.fetched import (
    UNREADABLE,
    CheckpointRecord,
    WriteRecord,
    metadata_of,
)
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost._db.operations import Operation
    from milepost.checkpoint._sql.manifest import Manifest
    from milepost.checkpoint._sql.read.reader import CheckpointReader


class Salvaged(NamedTuple):
    """A checkpoint, as far as it can be read."""

    saved: CheckpointTuple
    """Without the channels and writes that are lost; with empty metadata if that is lost."""
    lost: dict[str, str]
    """What is missing → why. Empty if the checkpoint is whole."""


def thread(reader: CheckpointReader, thread_id: str) -> Operation[list[Salvaged]]:
    """The readable checkpoints of a thread, newest first, without those whose manifest is lost."""
    found: list[Salvaged] = []
    for graph in (yield from graphs(reader, thread_id)):
        for row in graph.checkpoints.values():
            try:
                graph.manifests.of(row.id)
            except UNREADABLE:
                continue
            found.append(_salvaged(graph, row))
    return sorted(found, key=lambda one: one.saved.checkpoint["id"], reverse=True)


def _salvaged(graph: GraphRows, row: CheckpointRecord) -> Salvaged:
    lost: dict[str, str] = {}

    def attempt(what: str, read: Callable[[], Any], *, otherwise: Any = None) -> Any:
        try:
            return read()
        except UNREADABLE as error:
            lost[what] = str(error)
            return otherwise

    def channel(manifest: Manifest, name: str) -> Any:
        read = partial(graph.assembler.channel, manifest, name)
        return attempt(f"channel '{name}'", read, otherwise=MISSING)

    assembler = graph.assembler
    checkpoint = attempt("Sends of the step before", partial(assembler.checkpoint, row, channel))
    if checkpoint is None:
        checkpoint = assembler.checkpoint(row, channel, with_older_sends=False)
    attempt("some writes", partial(assembler.check_writes, row.id))
    held: list[WriteRecord] = []
    for group in assembler.rows_at(row.id):
        several = "writes" if group.kind == INLINE_WRITES else f"writes of task '{group.task_id}'"
        held += attempt(several, partial(assembler.writes_in, group), otherwise=())
    writes: list[PendingWrite] = []
    for write in first_of_each(held):
        name = f"write {write.position} of task '{write.task_id}' to channel '{write.channel}'"
        if (done := attempt(name, partial(assembler.write, write))) is not None:
            writes.append(done)
    metadata = attempt(
        "metadata", partial(metadata_of, graph.codec, *graph.place, row), otherwise={}
    )
    place = Place(*graph.place, row.id)
    saved = CheckpointTuple(
        place.config(),
        checkpoint,
        metadata,
        place._replace(checkpoint_id=row.parent_id).config() if row.parent_id else None,
        writes,
    )
    return Salvaged(saved, lost)
