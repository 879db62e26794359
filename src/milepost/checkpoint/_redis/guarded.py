"""The usual step of a run as conditions and changes of one script, without reading anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost._db.operations import ConditionalInsert, Execute, GuardedBatch
from milepost.checkpoint._redis.row_statements import INSERTS, updated
from milepost.checkpoint._redis.rows import (
    WRITE,
    cell_number,
    field_of,
    pack,
    packed_cell,
    row_given,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.redis.commands import Argument


class GuardedStep:
    """One thread's part of a guarded batch: there is only one thread in it."""

    def __init__(self, statement: GuardedBatch | ConditionalInsert) -> None:
        self.thread_id = ""
        self.epoch = 0
        self.is_new = False
        self.head: str | None = None
        """The latest checkpoint of the root graph that it stores."""
        self.conditions: list[Argument] = []
        self.changes: list[Argument] = []
        if isinstance(statement, ConditionalInsert):
            *row, thread_id, token, epoch = statement.parameters
            self._guard("holds_thread", (thread_id, token, epoch))
            self._change("add_checkpoint", row)
            return
        for guard in statement.guards:
            for parameters in guard.rows:
                self._guard(guard.sql, parameters)
        for one in statement.statements:
            for given in [one.parameters] if isinstance(one, Execute) else one.rows:
                self._change(one.sql, given)

    def _guard(self, name: str, given: Sequence[Any]) -> None:
        if name == "has_writes":
            number, _, ns, id = given
            start = field_of(WRITE, ns, id) + b"\0"
            self.conditions += ["#", b"[" + start, b"(" + start + b"\xff", number]
            return
        if name == "holds_thread":
            self.thread_id, token, self.epoch = given
            self.conditions += ["=", "token", token, "=", "epoch", self.epoch]
            return
        if name == "hold_thread":
            head, _, status, now, self.thread_id, token, self.epoch = given
            self.conditions += ["=", "token", token, "=", "epoch", self.epoch]
        elif name == "take_thread":
            head, _, token, status, now, self.thread_id, found, self.epoch = given
            self.conditions += ["=", "head", found, "=", "epoch", self.epoch]
            self.conditions += ["~", "status", "running"]
            self.changes += ["E", "token", token]
        else:
            self.thread_id, head, token, self.epoch, status, now, _, *described = given
            self.is_new = True
            self.conditions += ["!"]
            owner, metadata = described or (None, "{}")
            self.changes += ["E", "token", token, "E", "epoch", self.epoch]
            self.changes += ["E", "created_at", repr(now), "E", "metadata", metadata]
            if owner is not None:
                self.changes += ["E", "owner", owner]
        self.changes += ["E", "status", status, "E", "updated_at", repr(now)]
        if head is not None:
            self.changes += ["M", "head", head]

    def _change(self, name: str, given: Sequence[Any]) -> None:
        if name in INSERTS:
            kind, how = INSERTS[name]
            field, row = row_given(kind, *given[1:])
            self.changes += [how, field, pack(row)]
            if name == "add_checkpoint" and given[1] == "":
                self.head = max(self.head or "", given[2])
            return
        _, field, cells = updated(name, given)
        self.changes += ["U", field, len(cells)]
        for cell, value in cells.items():
            self.changes += [cell_number(field, cell), packed_cell(value)]
