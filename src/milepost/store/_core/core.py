"""The logic of a store, neither sync nor async, without a place to store things.

Three steps: `prepare` checks and encodes what a caller asks for, at once, so that nothing that the
caller does to its objects later changes what is stored; `execute` embeds the texts of all groups
in one call and hands everything to the backend; the rows that come back are decoded.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast, get_args

from milepost._db.operations import Work
from milepost._internal.progress import Progress
from milepost.checkpoint.serde import _rotation
from milepost.checkpoint.serde.base import SerializerProtocol, dumps_at, loads_at
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.errors import SerdeError, ValueTooLargeError
from milepost.store._core import arguments, namespaces
from milepost.store._core.filters import parse
from milepost.store._core.json_view import Viewer
from milepost.store._core.records import (
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Namespace,
    Op,
    Order,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    Stored,
    TTLConfig,
    make_item,
)
from milepost.store._core.tasks import (
    Group,
    Index,
    Outcome,
    RefusedItem,
    Search,
    StoreRequests,
    Task,
    Write,
    with_vectors,
)
from milepost.store._core.ttl import Clock, Stamps, sweep_minutes
from milepost.store._vectors.embeddings import Embedder
from milepost.store._vectors.paths import get_text_at_path, tokenize_path

K = TypeVar("K")
Deserializer: TypeAlias = Callable[[bytes], dict[str, Any]]
"""Makes the value of an item of its JSON text."""

ORDERS: Final[tuple[str, ...]] = get_args(Order)
Resealed: TypeAlias = _rotation.Reencrypted[RefusedItem]
"""What a re-encryption has done so far."""


class StoreCore(ABC):
    """The logic that all stores of milepost share."""

    keeps_dims = True
    """Whether the backend has to know the length of vectors before there is one."""
    makes_views = True
    """Whether the backend wants the view of a value along with it."""
    largest = sys.maxsize
    """Bytes that a value can have, as the serializer writes it."""
    largest_view = sys.maxsize
    """Bytes that its JSON can have."""

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        clear_fields: Sequence[str] | None = None,
        clock: Clock | None = None,
        deserializer: Deserializer | None = None,
    ) -> None:
        self.deserializer = deserializer
        self.serde: SerializerProtocol = JsonPlusSerializer() if serde is None else serde
        self._binds = hasattr(self.serde, "loads_typed_at")
        self.ttl_config = ttl
        self.sweep_minutes = sweep_minutes(ttl)
        self.stamps = Stamps(clock)
        if clear_fields is None and isinstance(self.serde, EncryptedSerializer):
            clear_fields = ()
        clear = None if clear_fields is None else [field.split(".") for field in clear_fields]
        self.viewer = Viewer(self.serde, clear)
        self.index = index
        self.embedder = None if index is None else _embedder(index, self.keeps_dims)
        self._paths = [tokenize_path(path) for path in _fields(index)]

    # -- what a backend does

    def single_put(self, group: Group) -> Work[Any] | None:  # noqa: ARG002
        """All that a group asks for, if that is one put which needs no driver."""
        return None

    def ready(self) -> StoreRequests[None]:
        """Prepare the database, once."""
        yield from ()

    @abstractmethod
    def perform(self, groups: Sequence[Group]) -> StoreRequests[list[Outcome]]:
        """Carry out groups: all reads, then the writes of each group that can be done."""

    @abstractmethod
    def sweep(self) -> StoreRequests[int]:
        """Delete what has expired; how many items it was."""

    @abstractmethod
    def reindex(self, progress: Progress | None, size: int) -> StoreRequests[int]:
        """Rebuild all vectors, `size` items at a time; returns the number of items."""

    @abstractmethod
    def reencrypt(self, progress: Progress | None) -> StoreRequests[Resealed]:
        """Seal all values again with the newest key."""

    def reseal(
        self, rows: Iterable[tuple[K, Stored]], done: Resealed
    ) -> Iterator[tuple[K, tuple[str, bytes]]]:
        """The values that have an older key, sealed with the newest; counts all others."""
        serde: Any = self.serde
        for name, row in rows:
            try:
                if serde.is_current(row.data[1]):
                    done.current += 1
                    continue
                again = serde.reseal_typed(row.data, place(row.namespace, row.key))
            except SerdeError as error:
                done.refused.append(RefusedItem(row.namespace, row.key, str(error)))
            else:
                yield name, again

    # -- from operations to tasks

    def prepare(self, ops: Iterable[Op]) -> list[Task]:
        """Check and encode operations."""
        return list(map(self._task, ops))

    def _task(self, op: Op) -> Task:
        if isinstance(op, PutOp):
            return self._write(op)
        if isinstance(op, GetOp):
            key = namespaces.check_key(op.key)
            return GetOp(namespaces.check(op.namespace), key, op.refresh_ttl)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            namespaces.validate_op_namespace(op)
            return arguments.listing(op)
        raise TypeError(f"{op!r} is not an operation of a store.")

    def _search(self, op: SearchOp) -> Search:
        limit, offset = arguments.page(op.limit, op.offset)
        if op.order is not None and op.order not in ORDERS:
            raise ValueError(f"order={op.order!r} is not one of {', '.join(ORDERS)}.")
        return Search(
            namespaces.check(op.namespace_prefix),
            parse(op.filter, self.viewer),
            limit,
            offset,
            # Without an index there is nothing to rank by; the scores, None, say so.
            op.query or None if self.embedder is not None else None,
            op.order,
            op.refresh_ttl,
        )

    def _write(self, op: PutOp) -> Task:
        namespace, key, value, paths, ttl, version = op
        namespace = namespaces.check(namespace)  # in a batch, also one below a reserved root
        if not namespace and value is not None:
            raise namespaces.empty()
        if type(key) is not str or not key.isascii() or "\0" in key:
            key = namespaces.check_key(key)
        if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
            raise TypeError(f"if_version is an Item's version, or 0 for no item; not {version!r}.")
        if value is None:
            removal = Write(namespace, key, None, "", (), None, None, version)
            if namespace:
                return removal
            if version:
                raise removal.conflict(0)
            return GetOp(namespace, key, False)  # no item can be there: nothing to be removed
        if type(value) is not dict:
            value = arguments.value(value)
        index = None if paths is None else arguments.index(paths)
        try:
            if self._binds:
                data = dumps_at(self.serde, value, place(namespace, key))
            else:
                data = self.serde.dumps_typed(value)
        except SerdeError as error:
            raise error.at(channel=f"{namespaces.to_text(namespace)}{key}") from None
        view = self.viewer.text(value) if self.makes_views else ""
        if len(data[1]) > self.largest:
            raise _too_large(namespace, key, len(data[1]), self.largest, "bytes")
        # A character is at most four bytes.
        if 4 * len(view) > self.largest_view and (size := len(view.encode())) > self.largest_view:
            raise _too_large(namespace, key, size, self.largest_view, "bytes of JSON")
        return Write(
            namespace,
            key,
            data,
            view,
            () if self.embedder is None else self.texts(value, index),
            index,
            None if ttl is None else arguments.lifetime(ttl),
            version,
        )

    def texts(self, value: Mapping[str, Any], index: Index) -> tuple[str, ...]:
        """The texts of a value that are embedded."""
        if self.embedder is None or index is False:
            return ()
        paths: Sequence[Any] = self._paths if index is None else index
        found = [text for path in paths for text in get_text_at_path(value, path)]
        return tuple(dict.fromkeys(filter(None, found)))

    # -- from tasks to results

    def execute(self, groups: Sequence[Group]) -> StoreRequests[list[list[Result] | Exception]]:
        """Carry out what several callers asked for; one that fails does not harm the others."""
        if self.embedder is None:
            found = yield from self.perform(groups)
            return list(map(self.decoded, groups, found))
        ready = yield from self._embedded(groups)
        live = [group for group in ready if not isinstance(group, Exception)]
        done = iter((yield from self.perform(live)) if live else ())
        return [
            group if isinstance(group, Exception) else self.decoded(group, next(done))
            for group in ready
        ]

    def _embedded(self, groups: Sequence[Group]) -> StoreRequests[list[Group | Exception]]:
        """The groups, with the vectors that they need."""
        try:
            return list((yield from with_vectors(groups)))
        except Exception as error:
            if len(groups) == 1:
                return [error]
        # One text may have made the call fail for all.
        single: list[Group | Exception] = []
        for group in groups:
            single += yield from self._embedded([group])
        return single

    def decoded(self, group: Group, outcome: Outcome) -> list[Result] | Exception:
        """What a group's caller is given."""
        if isinstance(outcome, Exception):
            return outcome
        try:
            return [self._result(task, found) for task, found in zip(group, outcome, strict=True)]
        except SerdeError as error:
            return error

    def _result(self, task: Task, found: Any) -> Result:
        if found is None:
            return None
        if isinstance(task, Search):
            return [self._found(row, score) for score, row in found]
        if isinstance(task, GetOp):
            return make_item(Item, self.value(found), found)
        return cast("Result", found)

    def _found(self, row: Stored, score: float | None) -> SearchItem:
        item = make_item(SearchItem, self.value(row), row)
        item.score = score
        return item

    def value(self, row: Stored) -> dict[str, Any]:
        """The value of a stored row, as the caller is given it."""
        value = self.plain_value(row)
        if self.deserializer is not None:
            value = self.deserializer(json.dumps(value).encode())
        return value

    def plain_value(self, row: Stored) -> dict[str, Any]:
        """The value of a stored row, as it was put."""
        try:
            if self._binds:
                where = place(row.namespace, row.key)
                value: dict[str, Any] = loads_at(self.serde, row.data, where)
            else:
                value = self.serde.loads_typed(row.data)
        except SerdeError as error:
            raise error.at(channel=f"{namespaces.to_text(row.namespace)}{row.key}") from None
        return value


def place(namespace: tuple[str, ...], key: str) -> str:
    """Where an item is: an encrypted value opens nowhere else."""
    return f"store\0{namespaces.to_text(namespace)}\0{key}"


def _too_large(
    namespace: Namespace, key: str, size: int, largest: int, what: str
) -> ValueTooLargeError:
    return ValueTooLargeError(
        f"The value of the item {key!r} in {namespace} has {size:,} {what}, and the store's "
        f"database holds {largest:,} at most; nothing was written. Keep large contents in files or "
        "an object store, and put their addresses here."
    )


_SETTINGS: Final = dict.fromkeys(
    ("dims", "embed", "fields", "text_fields", "model", "distance_type", "ann_index_config")
).keys()


def _fields(index: IndexConfig | None) -> Sequence[str]:
    """The paths of what is embedded."""
    given = index or IndexConfig()
    fields = given.get("fields") or given.get("text_fields") or ["$"]
    if isinstance(given.get("fields"), str):
        raise TypeError(f"index['fields'] is a list of paths: [{fields!r}].")
    return [fields] if isinstance(fields, str) else fields


def _embedder(index: IndexConfig, keeps_dims: bool) -> Embedder:
    if unknown := set(index) - _SETTINGS:
        raise ValueError(
            f"index has unknown settings: {sorted(unknown)}. There are {', '.join(_SETTINGS)}."
        )
    if "embed" not in index or (keeps_dims and "dims" not in index):
        raise ValueError(
            "index needs `embed` and `dims`: what makes the vectors, and their length."
        )
    return Embedder(index["embed"], index.get("dims"), index.get("model"), is_fixed=keeps_dims)
