"""LangGraph's databases, read as they are: no package of LangGraph is needed, nothing is written.

Values are read under our rules (`integrations/langgraph/_formats/decoding.py`), and what those
would refuse is read as data.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from milepost.checkpoint._contract.records import (
    Checkpoint,
    CheckpointTuple,
    PendingWrite,
    Place,
    get_checkpoint_id,
    place_of,
)
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.errors import (
    DecryptionError,
    DeserializationError,
    MissingDependencyError,
    SerdeError,
)
from milepost.inspect._sources import LAST
from milepost.inspect._stored import StoredObject
from milepost.integrations.langgraph._formats.decoding import _KNOWN, StrictSerializer

if TYPE_CHECKING:
    from milepost.types import RunnableConfig

Found: TypeAlias = list[CheckpointTuple]
Pending: TypeAlias = list[PendingWrite]
"""Named, since `list` is a method of a saver."""

Execute: TypeAlias = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Runs a query with `?` for its parameters."""

_PAGE: Final = 64


class DataSerializer(StrictSerializer):
    """Reads what LangGraph's serializer wrote; classes of programs are read as data.

    What is sealed is opened with the key in LANGGRAPH_AES_KEY.
    """

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, body = data
        inner, plus, cipher = kind.rpartition("+")
        if plus and cipher == "aes":
            return super().loads_typed((inner, _opened(bytes(body))))
        return super().loads_typed(data)

    def _builder(self, known: str, module: str, name: str) -> Any:
        build = _KNOWN.get(known)
        if build is not None:
            return build
        root = module.partition(".")[0]
        stored = f"langchain_core:{name}" if root.startswith("langchain") else f"{module}:{name}"

        def keep(*args: Any, **fields: Any) -> StoredObject:
            if fields:
                return StoredObject(stored, fields)
            return StoredObject(stored, args[0] if len(args) == 1 else list(args))

        return keep

    def _extension(self, code: int, inside: Any) -> Any:
        if code == 6:  # an array: dtype, shape, order, bytes
            names = ("dtype", "shape", "order", "data")
            return StoredObject("numpy:ndarray", dict(zip(names, inside, strict=False)))
        return super()._extension(code, inside)


def _opened(sealed: bytes) -> bytes:
    """What LangGraph has sealed: a nonce, a tag and the text, in AES in EAX mode."""
    key = os.environ.get("LANGGRAPH_AES_KEY", "").encode()
    if len(key) not in (16, 24, 32):
        raise DecryptionError("the value is sealed: set LANGGRAPH_AES_KEY to its key")
    try:
        from Crypto.Cipher import AES  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise MissingDependencyError(
            "Sealed values need: pip install 'milepost[crypto]'"
        ) from error
    try:
        cipher = AES.new(key, AES.MODE_EAX, nonce=sealed[:16])
        plain: bytes = cipher.decrypt_and_verify(sealed[32:], sealed[16:32])
    except ValueError:
        raise DecryptionError(
            "the value does not open with the key in LANGGRAPH_AES_KEY: it was sealed with another "
            "one, or changed since"
        ) from None
    return plain


class LangGraphReader(BaseCheckpointSaver[Any]):
    """Checkpoints of a LangGraph database, for reading."""

    def __init__(self, execute: Execute, serde: Any = None) -> None:
        super().__init__(serde=DataSerializer() if serde is None else serde)
        self.execute = execute

    # -- what SQLite and PostgreSQL have in tables of their own

    writes_table: str
    select: str
    """All checkpoints; a condition follows."""

    def _tuples(self, where: str, values: Sequence[Any]) -> Found:
        """The checkpoints that a condition finds."""
        return [self._tuple(*row) for row in self.execute(f"{self.select} {where}", values)]

    @abstractmethod
    def _tuple(self, *row: Any) -> CheckpointTuple:
        """The checkpoint in a row."""

    # -- the contract

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, ns, id = place_of(config)
        if id is not None:
            where = "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
            found = self._tuples(where, (thread_id, ns, id))
        else:
            where = "WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY checkpoint_id DESC LIMIT 1"
            found = self._tuples(where, (thread_id, ns))
        return found[0] if found else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        if config is None:
            raise NotImplementedError("Threads of a LangGraph database are read one by one.")
        place = place_of(config)
        ns = (config.get("configurable") or {}).get("checkpoint_ns")
        cursor = (get_checkpoint_id(before) if before else None) or LAST
        left = limit
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            clauses, given = ["thread_id = ?", "checkpoint_id < ?"], [place.thread_id, cursor]
            if ns is not None:
                clauses.append("checkpoint_ns = ?")
                given.append(ns)
            if place.checkpoint_id is not None:
                clauses.append("checkpoint_id = ?")
                given.append(place.checkpoint_id)
            text = f"WHERE {' AND '.join(clauses)} ORDER BY checkpoint_id DESC LIMIT {size}"
            found = self._tuples(text, given)
            for one in found:
                if all(one.metadata.get(key) == value for key, value in (filter or {}).items()):
                    yield one
                    left = None if left is None else left - 1
            if len(found) < size:
                return
            cursor = place_of(found[-1].config).checkpoint_id or ""

    # -- parts

    def _pending(self, place: Place) -> Pending:
        rows = self.execute(
            f"SELECT task_id, channel, type, {self._blob} FROM {self.writes_table}"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
            " ORDER BY task_id, idx",
            tuple(place),
        )
        return [(row[0], row[1], self.value(row[2], row[3])) for row in rows]

    _blob = "blob"

    def value(self, kind: str | None, data: Any) -> Any:
        """A stored value; `Unreadable` with the reason if it cannot be read."""
        from milepost.inspect._data import Unreadable

        try:
            return self.serde.loads_typed((kind or "null", bytes(data or b"")))
        except SerdeError as error:
            return Unreadable(str(error))


class SqliteReader(LangGraphReader):
    """LangGraph's tables in SQLite: a checkpoint is one value."""

    writes_table = "writes"
    _blob = "value"
    select = (
        "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,"
        " checkpoint, metadata FROM checkpoints"
    )

    def _tuple(
        self, thread_id: str, ns: str, id: str, parent: str | None, kind: str, data: Any, about: Any
    ) -> CheckpointTuple:
        place = Place(thread_id, ns, id)
        checkpoint = self.value(kind, data)
        if not isinstance(checkpoint, dict):
            reason = getattr(checkpoint, "reason", "it is no checkpoint")
            raise DeserializationError(f"checkpoint '{id}' of thread '{thread_id}': {reason}")
        metadata = as_json(about)
        before = place._replace(checkpoint_id=parent).config() if parent else None
        return CheckpointTuple(
            place.config(), _with_all_keys(checkpoint, id), metadata, before, self._pending(place)
        )


class PostgresReader(LangGraphReader):
    """LangGraph's tables in PostgreSQL: large values have rows of their own."""

    writes_table = "checkpoint_writes"
    select = (
        "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint,"
        " metadata FROM checkpoints"
    )

    def _tuple(
        self, thread_id: str, ns: str, id: str, parent: str | None, checkpoint: Any, about: Any
    ) -> CheckpointTuple:
        place = Place(thread_id, ns, id)
        stored = _with_all_keys(as_json(checkpoint), id)
        values = dict(stored["channel_values"])
        versions = stored["channel_versions"]
        wanted = [str(versions[name]) for name in versions if name not in values]
        if wanted:
            rows = self.execute(
                "SELECT channel, version, type, blob FROM checkpoint_blobs WHERE thread_id = ?"
                " AND checkpoint_ns = ? AND version = ANY(?)",
                (thread_id, ns, wanted),
            )
            for channel, version, kind, data in rows:
                if str(versions.get(channel)) == version and kind != "empty":
                    values[channel] = self.value(kind, data)
        before = place._replace(checkpoint_id=parent).config() if parent else None
        kept: Checkpoint = {**stored, "channel_values": values}
        return CheckpointTuple(place.config(), kept, as_json(about), before, self._pending(place))


def as_json(cell: Any) -> Any:
    """What is in a cell of JSON; nothing, if that is no object."""
    if isinstance(cell, (bytes, str)):
        try:
            cell = json.loads(cell)
        except ValueError:
            cell = {}
    return cell if isinstance(cell, dict) else {}


def _with_all_keys(stored: Mapping[str, Any], id: str) -> Checkpoint:
    """A checkpoint with all of its keys, whatever version of LangGraph wrote it."""
    return Checkpoint(
        v=stored.get("v", 1),
        id=stored.get("id", id),
        ts=stored.get("ts", ""),
        channel_values=stored.get("channel_values") or {},
        channel_versions=stored.get("channel_versions") or {},
        versions_seen=stored.get("versions_seen") or {},
        updated_channels=stored.get("updated_channels"),
    )
