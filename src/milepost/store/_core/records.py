"""The records of a store: what it keeps, and what it can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from milepost.store._vectors.embeddings import Embed

Namespace: TypeAlias = tuple[str, ...]
NamespacePath: TypeAlias = tuple[str, ...]
"""Labels to match; `*` matches any one label."""
NamespaceMatchType: TypeAlias = Literal["prefix", "suffix"]
Order: TypeAlias = Literal["created_at", "-created_at", "updated_at", "-updated_at", "key", "-key"]
"""How unranked results are sorted; a leading minus means descending."""


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class NotProvided:
    """Distinguishes an argument that was left out from one that was given as None.

    Examples:
        >>> from milepost.store.base import NOT_PROVIDED, NotProvided
        >>> isinstance(NOT_PROVIDED, NotProvided), bool(NOT_PROVIDED)
        (True, False)
    """

    __slots__ = ()

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_PROVIDED: Final = NotProvided()


class Item:
    """A value under its key.

    Args:
        value: The value.
        key: The key.
        namespace: Where it is.
        created_at: When it was first put.
        updated_at: When it was last put.
        version: Grows with every put and is never used twice, so that `put(..., if_version=...)`
            can refuse to overwrite what the caller has not seen. It is 0 for an item of a store
            that does not count versions.

    Examples:
        >>> from milepost.store.memory import InMemoryStore
        >>> store = InMemoryStore()
        >>> store.put(("users", "ada"), "city", {"name": "Paris"})
        >>> item = store.get(("users", "ada"), "city")
        >>> item.namespace, item.key, item.value
        (('users', 'ada'), 'city', {'name': 'Paris'})
    """

    __slots__ = ("_created", "_updated", "key", "namespace", "value", "version")

    def __init__(
        self,
        *,
        value: dict[str, Any],
        key: str,
        namespace: Namespace,
        created_at: datetime | str | int,
        updated_at: datetime | str | int,
        version: int = 0,
    ) -> None:
        self.value = value
        self.key = key
        self.namespace = namespace if type(namespace) is tuple else tuple(namespace)
        # Converted when it is read: fetching an item is more frequent than asking its age.
        self._created = created_at
        self._updated = updated_at
        self.version = version

    @property
    def created_at(self) -> datetime:
        """When the item was first put."""
        if not isinstance(self._created, datetime):
            self._created = to_datetime(self._created)
        return self._created

    @property
    def updated_at(self) -> datetime:
        """When it was last put."""
        if not isinstance(self._updated, datetime):
            self._updated = to_datetime(self._updated)
        return self._updated

    def dict(self) -> dict[str, Any]:
        """The documented fields as JSON has them: a list for the namespace, text for times."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Item):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((self.namespace, self.key))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.dict().items())
        return f"{type(self).__name__}({fields})"

    def _compared(self) -> tuple[Any, ...]:
        return (self.namespace, self.key, self.value, self.created_at, self.updated_at)


class Stored(Protocol):
    """An item as a store keeps it. Times are in microseconds; `updated` is also the version."""

    @property
    def namespace(self) -> Namespace: ...
    @property
    def key(self) -> str: ...
    @property
    def data(self) -> tuple[str, bytes]: ...
    @property
    def created(self) -> int: ...
    @property
    def updated(self) -> int: ...


ItemT = TypeVar("ItemT", bound=Item)


def make_item(kind: type[ItemT], value: dict[str, Any], row: Stored) -> ItemT:
    """An item from what a store has checked already, without the detour through `__init__`."""
    item: ItemT = object.__new__(kind)
    item.value = value
    item.key = row.key
    item.namespace = row.namespace
    item._created = row.created
    item._updated = item.version = row.updated
    return item


class SearchItem(Item):
    """An item that a search has found.

    Args:
        namespace: Where it is.
        key: The key.
        value: The value.
        created_at: When it was first put.
        updated_at: When it was last put.
        score: How near it is to the query; None unless it was ranked by meaning.
        version: As for `Item`.

    Examples:
        >>> from milepost.store.memory import InMemoryStore
        >>> store = InMemoryStore()
        >>> store.put(("users", "ada"), "city", {"name": "Paris"})
        >>> [found] = store.search(("users",))
        >>> found.key, found.score
        ('city', None)
    """

    __slots__ = ("score",)

    def __init__(
        self,
        namespace: Namespace,
        key: str,
        value: dict[str, Any],
        created_at: datetime | str | int,
        updated_at: datetime | str | int,
        score: float | None = None,
        *,
        version: int = 0,
    ) -> None:
        super().__init__(
            value=value,
            key=key,
            namespace=namespace,
            created_at=created_at,
            updated_at=updated_at,
            version=version,
        )
        self.score = score

    def dict(self) -> dict[str, Any]:
        """The fields of an item, and the score."""
        return {**super().dict(), "score": self.score}


def to_datetime(moment: str | int) -> datetime:
    """A moment that was given in ISO format, or in microseconds since 1970."""
    if isinstance(moment, str):
        return datetime.fromisoformat(moment)
    return _EPOCH + timedelta(microseconds=moment)


class GetOp(NamedTuple):
    """Fetch one item.

    Examples:
        >>> from milepost.store.base import GetOp
        >>> from milepost.store.memory import InMemoryStore
        >>> InMemoryStore().batch([GetOp(("users", "ada"), "city")])
        [None]
    """

    namespace: Namespace
    """Where it is."""
    key: str
    """The key."""
    refresh_ttl: bool = True
    """Whether reading renews its lifetime."""


class SearchOp(NamedTuple):
    """Find items below a namespace.

    Examples:
        >>> from milepost.store.base import SearchOp
        >>> from milepost.store.memory import InMemoryStore
        >>> InMemoryStore().batch([SearchOp(("users",), filter={"name": "Paris"})])
        [[]]
    """

    namespace_prefix: Namespace
    """What their namespaces begin with."""
    filter: dict[str, Any] | None = None
    """Tests of fields of the value."""
    limit: int = 10
    """How many at most."""
    offset: int = 0
    """How many to skip."""
    query: str | None = None
    """Ranks them by meaning."""
    refresh_ttl: bool = True
    """Whether reading renews their lifetimes."""
    order: Order | None = None
    """None is the backend's own: oldest first in memory, last updated first in a database."""


class MatchCondition(NamedTuple):
    """Which namespaces are wanted: those that begin or end like this.

    Examples:
        >>> from milepost.store.base import MatchCondition
        >>> MatchCondition("prefix", ("users", "*"))
        MatchCondition(match_type='prefix', path=('users', '*'))
    """

    match_type: NamespaceMatchType
    """"prefix" or "suffix"."""
    path: NamespacePath
    """The labels; `*` is any one label."""


class ListNamespacesOp(NamedTuple):
    """Find namespaces that have items.

    Examples:
        >>> from milepost.store.base import ListNamespacesOp, MatchCondition
        >>> from milepost.store.memory import InMemoryStore
        >>> condition = MatchCondition("prefix", ("users",))
        >>> InMemoryStore().batch([ListNamespacesOp(match_conditions=(condition,))])
        [[]]
    """

    match_conditions: tuple[MatchCondition, ...] | None = None
    """Which: all of them have to be met."""
    max_depth: int | None = None
    """Deeper ones are cut to this depth, and listed once."""
    limit: int = 100
    """How many at most."""
    offset: int = 0
    """How many to skip."""


class PutOp(NamedTuple):
    """Store, replace or (with the value None) delete one item.

    Examples:
        >>> from milepost.store.base import GetOp, PutOp
        >>> from milepost.store.memory import InMemoryStore
        >>> store = InMemoryStore()
        >>> store.batch([PutOp(("users", "ada"), "city", {"name": "Paris"})])
        [None]
    """

    namespace: Namespace
    """Where it is put."""
    key: str
    """The key."""
    value: Mapping[str, Any] | None
    """The value; None deletes the item."""
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]
    """Paths to embed instead of the store's `fields`; False to embed nothing."""
    ttl: float | None = None
    """Minutes until the item expires."""
    if_version: int | None = None
    """The version that must be there now; 0 for none at all."""


Op: TypeAlias = GetOp | SearchOp | PutOp | ListNamespacesOp
Result: TypeAlias = Item | list[Item] | list[SearchItem] | list[Namespace] | None


class TTLConfig(TypedDict, total=False):
    """How long items live. Times are in minutes.

    Examples:
        >>> from milepost.store.memory import InMemoryStore
        >>> store = InMemoryStore(ttl={"default_ttl": 60, "refresh_on_read": False})
    """

    refresh_on_read: bool
    """Whether reading an item renews its lifetime. Default: True."""
    default_ttl: float | None
    """For items that are put without a `ttl` of their own. Default: they never expire."""
    sweep_interval_minutes: float | None
    """How often the sweeper deletes what has expired. Default: 5."""


class IndexConfig(TypedDict, total=False):
    """Search by meaning: what makes the vectors, and of which parts of a value.

    Examples:
        >>> from milepost.store.memory import InMemoryStore
        >>> def embed(texts: list[str]) -> list[list[float]]:
        ...     return [[text.count("a"), text.count("e")] for text in texts]
        >>> store = InMemoryStore(index={"dims": 2, "embed": embed, "fields": ["text"]})
        >>> store.put(("notes",), "1", {"text": "banana"})
        >>> store.put(("notes",), "2", {"text": "cherry"})
        >>> [item.key for item in store.search(("notes",), query="eel", limit=1)]
        ['2']
    """

    dims: int
    """The length of a vector."""
    embed: Embed
    """A function from texts to vectors, an embeddings object, or `"provider:model"`."""
    fields: list[str] | None
    """Paths of what is embedded. Default: `["$"]`, the whole value."""
    model: str
    """The model's name, by which a change is noticed. Default: taken from `embed`."""
    text_fields: list[str] | str | None
    """Another name for `fields`."""
