"""An open database: what is stored in it, and how it may be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, cast

from milepost.inspect._errors import ReadOnlyError, told_plainly
from milepost.inspect._sources import PlainSource, RedisSource, Source, SqlSource
from milepost.inspect._stored import data_saver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from milepost.checkpoint.base import BaseCheckpointSaver

Kind = Literal["sqlite", "postgres", "redis", "memory"]
Flavour = Literal["milepost", "langgraph"]
_SOURCES: Final[Mapping[Kind, Callable[[Any], Source]]] = {
    "sqlite": SqlSource,
    "postgres": SqlSource,
    "redis": RedisSource,
    "memory": PlainSource,
}
OpenStore: TypeAlias = "Callable[[bool], Any]"
"""Opens the store of a database; called with whether to make its tables. None without tables."""


class Database:
    """An open database: what is stored in it, and how it may be used.

    Args:
        saver: Reads and writes threads.
        url: The address, for messages.
        kind: "sqlite", "postgres", "redis" or "memory".
        flavour: Whether milepost or LangGraph has written it.
        writable: Whether it may be changed.
        store: The store in the same database.
        open_store: Opens that store when it is first asked for.
        source: Reads what savers do not show: sizes, tags, rows. By default, what fits the kind.
        reader: Reads threads as data, if that is another saver.
        close: Closes it.

    Examples:
        >>> db.writable, [row.thread_id for row in inspect.threads(db).items]
        (True, ['trip'])
    """

    def __init__(
        self,
        saver: BaseCheckpointSaver[Any],
        *,
        url: str,
        kind: Kind,
        flavour: Flavour = "milepost",
        writable: bool = False,
        store: Any = None,
        open_store: OpenStore | None = None,
        source: Source | None = None,
        reader: BaseCheckpointSaver[Any] | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.saver = saver
        """The saver, with a program's own types: for graphs that run a thread."""
        self.reader: Any = data_saver(saver) if reader is None else reader
        """The same storage, read as data: no class of a program is needed."""
        self.source = _SOURCES[kind](self.reader) if source is None else source
        self.url = url
        """The address, without a password."""
        self.kind: Kind = kind
        self.flavour: Flavour = flavour
        self.writable = writable
        self._store = store
        self._open_store = open_store
        self._close = close

    @property
    def store(self) -> Any:
        """The store in the same database; None if there is none."""
        if self._store is None and self._open_store is not None:
            with told_plainly(self.url):
                self._store = self._open_store(False)
        return self._store

    def store_to_write(self) -> Any:
        """The store; its tables are made if there are none. None for a saver by itself."""
        self.check_writable("A new item of the store")
        if self.store is None and self._open_store is not None:
            with told_plainly(self.url):
                self._store = self._open_store(True)
        return self._store

    @classmethod
    def of(
        cls, saver: BaseCheckpointSaver[Any], store: Any = None, *, writable: bool = True
    ) -> Database:
        """A database that is open already, such as a saver in memory.

        Args:
            saver: The saver.
            store: A store to look into as well.
            writable: Whether it may be changed.
        """
        from milepost.checkpoint._sql.saver import SqlSaver

        kind: Kind = cast("Kind", saver.dialect.name) if isinstance(saver, SqlSaver) else "memory"
        return cls(saver, url=f"{kind}:", kind=kind, writable=writable, store=store)

    def close(self) -> None:
        """Close what was opened for this database."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Database {self.url} ({self.flavour}, {'write' if self.writable else 'read'})>"

    def check_ours(self, what: str) -> None:
        """Make sure that milepost has written the database.

        Args:
            what: What is to be done, for the error.

        Raises:
            ReadOnlyError: It is LangGraph's.
        """
        if self.flavour == "langgraph":
            raise ReadOnlyError(
                f"{what} is not possible on {self.url}, which is LangGraph's: such databases are "
                "only shown. Copy its threads with `milepost import --from-langgraph`."
            )

    def check_writable(self, what: str) -> None:
        """Make sure that the database may be changed.

        Args:
            what: What is to be done, for the error.

        Raises:
            ReadOnlyError: It was opened for reading, or LangGraph has written it.
        """
        self.check_ours(what)
        if not self.writable:
            raise ReadOnlyError(
                f"{what} would change {self.url}, which was opened for reading. Open it with "
                "write=True (the page: --write)."
            )
