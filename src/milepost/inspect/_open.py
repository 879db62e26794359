"""Databases by their addresses, opened for reading unless writing is asked for."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from milepost.errors import MissingDependencyError
from milepost.inspect._database import Database
from milepost.inspect._errors import CannotOpenError
from milepost.inspect._failures import hidden, told_plainly
from milepost.inspect._opening_parts import serde_for
from milepost.inspect._sources import PlainSource
from milepost.inspect._stored import data_saver

if TYPE_CHECKING:
    from milepost.checkpoint.serde.base import SerializerProtocol

VARIABLE: Final = "MILEPOST_DB"
"""The environment variable that names a database."""


def open_database(
    url: str | None = None,
    *,
    write: bool = False,
    create: bool = False,
    serde: SerializerProtocol | None = None,
) -> Database:
    """The database at an address.

    If MILEPOST_AES_KEY is set, values that are sealed with that key are opened.

    Args:
        url: `sqlite:///file.db`, a bare path to a file, `postgresql://…` or `redis://…`; without
            one, the address in MILEPOST_DB.
        write: Whether it may be changed.
        create: With `write`: make a file or tables that are not there.
        serde: The serializer that it was written with, if that is not the usual one.

    Raises:
        CannotOpenError: There is no database, or none of a kind that is known.

    Examples:
        >>> with inspect.open_database("sqlite:///agent.db", write=True, create=True) as other:
        ...     inspect.threads(other).total
        0
    """
    if url is None:
        url = os.environ.get(VARIABLE)
    if not url:
        raise CannotOpenError(
            "Which database? Give its address (sqlite:///file.db, a path, or postgresql://…), or "
            f"set {VARIABLE}."
        )
    scheme = url.partition("://")[0] if "://" in url else "sqlite"
    with told_plainly(hidden(url)):
        if scheme in ("postgres", "postgresql"):
            from milepost.inspect._open_postgres import open_postgres

            return open_postgres(url, write, create, serde)
        if scheme in ("redis", "rediss", "valkey"):
            return _open_redis(url, write, create, serde)
        if scheme in ("sqlite", "file"):
            from milepost.inspect._open_sqlite import open_sqlite_file

            return open_sqlite_file(url, write, create, serde)
    raise CannotOpenError(
        f"'{hidden(url)}' names no database: write sqlite:///file.db, a path to a file, or "
        "postgresql://user@host/name."
    )


def _open_redis(url: str, write: bool, create: bool, serde: SerializerProtocol | None) -> Database:
    del create  # there are no tables to be made
    try:
        saver_class: Any = import_module("milepost.checkpoint.redis").RedisSaver
    except ImportError as error:
        raise MissingDependencyError(
            "Redis needs a client: pip install 'milepost[redis]'"
        ) from error
    stack = ExitStack()
    saver = stack.enter_context(saver_class.from_conn_string(url, serde=serde_for(serde)))
    try:
        with warnings.catch_warnings():
            if not write:  # how durable a step would be is of no interest
                warnings.simplefilter("ignore", RuntimeWarning)
            saver.setup()
    except BaseException:
        stack.close()
        raise
    reader = data_saver(saver)
    return Database(
        saver,
        url=hidden(url),
        kind="redis",
        writable=write,
        source=PlainSource(reader),
        reader=reader,
        close=stack.close,
    )
