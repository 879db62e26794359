"""The usual step of a run as conditions and changes of one script, without reading anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost._db.operations import ConditionalInsert, Execute, GuardedBatch
from milepost.checkpoint._redis.names import REDIS
from milepost.checkpoint._redis.row_statements import INSERTS, updated
from milepost.checkpoint._redis.rows import cell_number, pack, packed_cell, row_given
from milepost.checkpoint._redis.scripts import Change, Condition
from milepost.checkpoint._redis.thread_io import writes_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from milepost._db.redis.commands import Argument


class GuardedStep:
    """A guarded batch, or the single insert of a step. It concerns one thread only."""

    def __init__(self, statement: GuardedBatch | ConditionalInsert) -> None:
        self.thread_id = ""
        self.epoch = 0
        self.is_new = False
        """Whether the step adds the thread."""
        self.head: str | None = None
        """The latest checkpoint of the root graph that the step stores."""
        self.conditions: list[Argument] = []
        self.changes: list[Argument] = []
        if isinstance(statement, ConditionalInsert):
            *row, thread_id, token, epoch = statement.parameters
            self._holds_thread(thread_id, token, epoch)
            self._change(REDIS.add_checkpoint, row)
            return
        for guard in statement.guards:
            for parameters in guard.rows:
                _GUARDS[guard.sql](self, *parameters)
        for one in statement.statements:
            for given in [one.parameters] if isinstance(one, Execute) else one.rows:
                self._change(one.sql, given)

    # -- guards, each with the parameters of its SQL

    def _has_writes(self, number: int, _thread_id: str, ns: str, id: str) -> None:
        self.conditions += [Condition.COUNT, *writes_at(ns, id).bounds(), number]

    def _holds_thread(self, thread_id: str, token: str, epoch: int) -> None:
        self.thread_id, self.epoch = thread_id, epoch
        self.conditions += [Condition.EQUALS, "token", token, Condition.EQUALS, "epoch", epoch]

    def _hold_thread(
        self,
        head: str | None,
        _head: str | None,
        status: str,
        now: float,
        thread_id: str,
        token: str,
        epoch: int,
    ) -> None:
        self._holds_thread(thread_id, token, epoch)
        self._touch(head, status, now)

    def _take_thread(
        self,
        head: str | None,
        _head: str | None,
        token: str,
        status: str,
        now: float,
        thread_id: str,
        found: str,
        epoch: int,
    ) -> None:
        self.thread_id, self.epoch = thread_id, epoch
        self.conditions += [Condition.EQUALS, "head", found, Condition.EQUALS, "epoch", epoch]
        self.conditions += [Condition.DIFFERS, "status", "running"]
        self._set("token", token)
        self._touch(head, status, now)

    def _new_thread(
        self,
        thread_id: str,
        head: str | None,
        token: str,
        epoch: int,
        status: str,
        now: float,
        _now: float,
        owner: str | None,
        metadata: str,
    ) -> None:
        self.thread_id, self.epoch, self.is_new = thread_id, epoch, True
        self.conditions.append(Condition.IS_NEW)
        self._set("token", token)
        self._set("epoch", epoch)
        self._set("created_at", repr(now))
        self._set("metadata", metadata)
        if owner is not None:
            self._set("owner", owner)
        self._touch(head, status, now)

    def _set(self, key: str, value: Argument) -> None:
        self.changes += [Change.SET_VALUE, key, value]

    def _touch(self, head: str | None, status: str, now: float) -> None:
        self._set("status", status)
        self._set("updated_at", repr(now))
        if head is not None:
            self.changes += [Change.RAISE_VALUE, "head", head]

    # -- rows

    def _change(self, name: str, given: Sequence[Any]) -> None:
        if name in INSERTS:
            kind, how = INSERTS[name]
            field, row = row_given(kind, *given[1:])
            self.changes += [how, field, pack(row)]
            if name == REDIS.add_checkpoint and given[1] == "":
                self.head = max(self.head or "", given[2])
            return
        _, field, cells = updated(name, given)
        self.changes += [Change.UPDATE_ROW, field, len(cells)]
        for cell, value in cells.items():
            self.changes += [cell_number(field, cell), packed_cell(value)]


_GUARDS: Final[dict[str, Callable[..., None]]] = {
    REDIS.has_writes: GuardedStep._has_writes,
    REDIS.holds_thread: GuardedStep._holds_thread,
    REDIS.hold_thread: GuardedStep._hold_thread,
    REDIS.take_thread: GuardedStep._take_thread,
    REDIS.new_thread: GuardedStep._new_thread,
}
"""Guard → method."""
