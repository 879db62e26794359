"""The usual step of a run as conditions and changes of one script, without reading anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import ConditionalInsert, Execute, GuardedBatch
from milepost.checkpoint._redis.rows import (
    BLOB,
    CHECKPOINT,
    WRITE,
    Blob,
    Checkpoint,
    Row,
    Write,
    blob_row,
    cell,
    checkpoint_row,
    field_of,
    pack,
    write_row,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.redis.commands import Argument


@dataclass
class Step:
    """One thread's part of a guarded batch: there is only one thread in it."""

    thread_id: str = ""
    epoch: int = 0
    is_new: bool = False
    head: str | None = None
    """The latest checkpoint of the root graph that it stores."""
    changes: list[Argument] = field(default_factory=list)


def guarded_changes(statement: GuardedBatch | ConditionalInsert) -> Step:
    """The conditions, then the changes."""
    step = Step()
    changes: list[Argument] = []
    if isinstance(statement, ConditionalInsert):
        *row, thread_id, token, epoch = statement.parameters
        _guard(step, changes, "holds_thread", (thread_id, token, epoch))
        _change(step, changes, "add_checkpoint", row)
    else:
        for guard in statement.guards:
            for parameters in guard.rows:
                _guard(step, changes, guard.sql, parameters)
        for one in statement.statements:
            for given in [one.parameters] if isinstance(one, Execute) else one.rows:
                _change(step, changes, one.sql, given)
    step.changes += changes
    return step


def _guard(step: Step, changes: list[Argument], name: str, given: Sequence[Any]) -> None:
    conditions = step.changes
    if name == "has_writes":
        number, _, ns, id = given
        start = field_of(WRITE, ns, id) + b"\0"
        conditions += ["#", b"[" + start, b"(" + start + b"\xff", number]
        return
    if name == "holds_thread":
        step.thread_id, token, step.epoch = given
        conditions += ["=", "token", token, "=", "epoch", step.epoch]
        return
    if name == "hold_thread":
        head, _, status, now, step.thread_id, token, step.epoch = given
        conditions += ["=", "token", token, "=", "epoch", step.epoch]
    elif name == "take_thread":
        head, _, token, status, now, step.thread_id, found, step.epoch = given
        conditions += ["=", "head", found, "=", "epoch", step.epoch, "~", "status", "running"]
        changes += ["E", "token", token]
    else:
        step.thread_id, head, token, step.epoch, status, now, _, *described = given
        step.is_new = True
        conditions += ["!"]
        owner, metadata = described or (None, "{}")
        changes += ["E", "token", token, "E", "epoch", step.epoch, "E", "created_at", repr(now)]
        changes += ["E", "metadata", metadata]
        if owner is not None:
            changes += ["E", "owner", owner]
    changes += ["E", "status", status, "E", "updated_at", repr(now)]
    if head is not None:
        changes += ["M", "head", head]


def _change(step: Step, changes: list[Argument], name: str, given: Sequence[Any]) -> None:
    if name in _ADDING:
        how, made = _ADDING[name]
        _, *cells = given
        place, row = made(*cells)
        changes += [how, place, pack(row)]
        if name == "add_checkpoint" and cells[0] == "":
            step.head = max(step.head or "", cells[1])
    elif name == "compact_blob":
        channel, base, data, _, *key = given
        changes += _cells(field_of(BLOB, *key), Blob, base=base, base_channel=channel, level=0)
        changes += _cells(field_of(BLOB, *key), Blob, blob=data)
    elif name == "compact_write":
        base, data, _, *key = given
        changes += _cells(field_of(WRITE, *map(str, key)), Write, base=base, blob=data)
    else:
        assert name == "count_writes", name
        kind, metadata, _, *key = given
        changes += _cells(field_of(CHECKPOINT, *key), Checkpoint, kind=kind, metadata=metadata)


_ADDING: Final[dict[str, tuple[str, Callable[..., tuple[bytes, Row]]]]] = {
    "add_checkpoint": ("S", checkpoint_row),
    "add_blob": ("N", blob_row),
    "add_write": ("N", write_row),
    "replace_write": ("S", write_row),
}
"""How a row is stored (`scripts.py`), and what makes it of a statement's parameters."""


def _cells(key: bytes, row: Any, **cells: Any) -> list[Argument]:
    found: list[Argument] = ["U", key, len(cells)]
    for name, value in cells.items():
        found += [row._fields.index(name) + 1, cell(value)]
    return found
