"""Reads what is sound of a damaged thread. It changes nothing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.checkpoint.records import CheckpointTuple, PendingWrite, Place
from milepost.checkpoint.sql.fetched import (
    UNREADABLE,
    CheckpointRecord,
    WriteRecord,
    metadata_of,
)
from milepost.checkpoint.sql.lots import first_of_each
from milepost.checkpoint.sql.verifying import Graph, graphs
from milepost.checkpoint.sql.writes import LED
from milepost.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.checkpoint.sql.frame import Frame
    from milepost.checkpoint.sql.reading import Reader
    from milepost.sql.operations import Operation


class Salvaged(NamedTuple):
    """A checkpoint, as far as it can be read."""

    saved: CheckpointTuple
    """Without the channels and writes that are lost; with empty metadata if that is lost."""
    lost: dict[str, str]
    """What is missing → why. Empty if the checkpoint is whole."""


def thread(reader: Reader, thread_id: str) -> Operation[list[Salvaged]]:
    """What can still be read of a thread, newest first; a checkpoint without frame is left out."""
    found: list[Salvaged] = []
    for graph in (yield from graphs(reader, thread_id)):
        for row in graph.checkpoints.values():
            try:
                graph.frames.of(row.id)
            except UNREADABLE:
                continue
            found.append(_salvaged(graph, row))
    return sorted(found, key=lambda one: one.saved.checkpoint["id"], reverse=True)


def _salvaged(graph: Graph, row: CheckpointRecord) -> Salvaged:
    lost: dict[str, str] = {}

    def attempt(what: str, read: Callable[[], Any], *, otherwise: Any = None) -> Any:
        try:
            return read()
        except UNREADABLE as error:
            lost[what] = str(error)
            return otherwise

    def channel(frame: Frame, name: str) -> Any:
        read = partial(graph.lot.channel, frame, name)
        return attempt(f"channel '{name}'", read, otherwise=MISSING)

    checkpoint = graph.lot.checkpoint(row, channel)
    attempt("some writes", partial(graph.lot.check_writes, row.id))
    held: list[WriteRecord] = []
    for group in graph.lot.rows_at(row.id):
        several = "writes" if group.kind == LED else f"writes of task '{group.task_id}'"
        held += attempt(several, partial(graph.lot.writes_in, group), otherwise=())
    writes: list[PendingWrite] = []
    for write in first_of_each(held):
        name = f"write {write.position} of task '{write.task_id}' to channel '{write.channel}'"
        if (done := attempt(name, partial(graph.lot.write, write))) is not None:
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
