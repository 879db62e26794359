"""Databases by their addresses, opened for reading unless writing is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from milepost._db.addresses import is_postgres, is_redis
from milepost.inspect._errors import CannotOpenError, told_plainly, without_password

if TYPE_CHECKING:
    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.inspect._database import Database

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
        url: `sqlite:///file.db`, a bare path to a file, `postgresql://…` or `redis://…` (`rediss`,
            `valkey`, `unix`; `redis+cluster` for a cluster); without one, the address in
            MILEPOST_DB.
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
            "Which database? Give its address (sqlite:///file.db, a path, postgresql://… or "
            f"redis://…), or set {VARIABLE}."
        )
    with told_plainly(without_password(url)):
        if is_postgres(url):
            from milepost.inspect._open_postgres import open_postgres

            return open_postgres(url, write, create, serde)
        if is_redis(url):
            from milepost.inspect._redis import open_redis

            return open_redis(url, write, serde)
        if "://" not in url or url.startswith(("sqlite://", "file://")):
            from milepost.inspect._open_sqlite import open_sqlite_file

            return open_sqlite_file(url, write, create, serde)
    raise CannotOpenError(
        f"'{without_password(url)}' names no database: write sqlite:///file.db, a path to a file, "
        "postgresql://user@host/name or redis://host."
    )
