"""An open database: what is stored in it, and how it may be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from milepost.inspect._errors import ReadOnlyError
from milepost.inspect._failures import told_plainly
from milepost.inspect._sources import PlainSource, Source, SqlSource
from milepost.inspect._stored import data_saver

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from milepost.checkpoint.base import BaseCheckpointSaver

__all__ = ["Database", "Flavour", "Kind", "told_plainly"]

Kind = Literal["sqlite", "postgres", "redis", "memory"]
Flavour = Literal["milepost", "langgraph"]


class Database:
    """An open database: what is stored in it, and how it may be used.

    Args:
        saver: Reads and writes threads.
        url: The address, for messages.
        kind: "sqlite", "postgres" or another kind of saver.
        flavour: Whether milepost or LangGraph has written it.
        writable: Whether it may be changed.
        store: The store in the same database.
        source: Reads what savers do not show: sizes, tags, rows.
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
        source: Source,
        reader: BaseCheckpointSaver[Any] | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.saver = saver
        """The saver, with a program's own types: for graphs that go on with a thread."""
        self.reader: Any = data_saver(saver) if reader is None else reader
        """The same storage, read as data: no class of a program is needed."""
        self.source = source
        self.url = url
        """The address, without a password."""
        self.kind: Kind = kind
        self.flavour: Flavour = flavour
        self.writable = writable
        self.store = store
        """The store in the same database; None if there is none."""
        self._close = close

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

        if isinstance(saver, SqlSaver):
            kind: Kind = "sqlite" if saver.dialect.name == "sqlite" else "postgres"
            reader: Any = data_saver(saver)
            source: Source = SqlSource(reader)
        else:
            in_redis = type(saver).__name__.endswith("RedisSaver")
            kind, reader = "redis" if in_redis else "memory", data_saver(saver)
            source = PlainSource(reader)
        return cls(
            saver,
            url=f"{kind}:",
            kind=kind,
            writable=writable,
            store=store,
            source=source,
            reader=reader,
        )

    def close(self) -> None:
        """Close what was opened for this database."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Database {self.url} ({self.flavour}, {'write' if self.writable else 'read'})>"

    def check_writable(self, what: str) -> None:
        """Make sure that the database may be changed.

        Args:
            what: What is to be done, for the error.

        Raises:
            ReadOnlyError: It was opened for reading, or LangGraph has written it.
        """
        if self.flavour == "langgraph":
            raise ReadOnlyError(
                f"{what} would change {self.url}, which is LangGraph's: such databases are only "
                "read. Copy its threads with `milepost import --from-langgraph`."
            )
        if not self.writable:
            raise ReadOnlyError(
                f"{what} would change {self.url}, which was opened for reading. Open it with "
                "write=True (the page: --write)."
            )
