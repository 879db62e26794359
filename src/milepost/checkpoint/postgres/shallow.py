"""Savers that keep only the latest checkpoint of each graph. Kept for older programs."""

from __future__ import annotations

import warnings
from typing import Any

from milepost.checkpoint._sql.shallow import Shallow
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver

__all__ = ["AsyncShallowPostgresSaver", "ShallowPostgresSaver"]


class _Shallow(Shallow):
    """Says that it is deprecated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self).__name__} is deprecated. Use {type(self).__name__.replace('Shallow', '')}"
            " and pass durability='exit' to invoke and stream: that stores one checkpoint for each"
            " run.",
            DeprecationWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class ShallowPostgresSaver(_Shallow, PostgresSaver):
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    Deprecated: use `PostgresSaver` with `durability="exit"`.

    Examples:
        >>> import os, warnings
        >>> from milepost.checkpoint.postgres.shallow import ShallowPostgresSaver
        >>> with warnings.catch_warnings(action="ignore"):
        ...     opened = ShallowPostgresSaver.from_conn_string(os.environ["DB_URI"])
        ...     with opened as saver:
        ...         saver.setup()
    """


class AsyncShallowPostgresSaver(_Shallow, AsyncPostgresSaver):
    """Keeps the latest checkpoint only: no history, no forks, no time travel.

    Deprecated: use `AsyncPostgresSaver` with `durability="exit"`.

    Examples:
        >>> import asyncio, os, warnings
        >>> from milepost.checkpoint.postgres.shallow import AsyncShallowPostgresSaver
        >>> async def main():
        ...     address = os.environ["DB_URI"]
        ...     async with AsyncShallowPostgresSaver.from_conn_string(address) as saver:
        ...         await saver.setup()
        >>> with warnings.catch_warnings(action="ignore"):
        ...     asyncio.run(main())
    """
