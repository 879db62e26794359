"""Carries out a saver's operations, as programs of the engine that all users of Redis share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from milepost._db.redis.engine import RedisEngine
from milepost._internal.asyncio_tools import see_through
from milepost.checkpoint._redis.server import carry_out, look_at, rewrite

if TYPE_CHECKING:
    from milepost._db.operations import Work
    from milepost.checkpoint._redis.calls import Calls
    from milepost.checkpoint._redis.settings import Settings

R = TypeVar("R")


class SaverEngine:
    """A client, sync or async, and what a saver was told about its server."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self.redis = RedisEngine(client, owner=settings.owner, scripts=settings.scripts)
        self._settings = settings

    @property
    def client(self) -> Any:
        """The client of redis-py."""
        return self.redis.client

    def drive(self, calls: Calls[R]) -> R:
        """Carry out calls."""
        return self.redis.run(carry_out(self._settings, calls))

    async def adrive(self, calls: Calls[R]) -> R:
        """`drive`, for use on an event loop; a cancellation waits until it has ended."""
        return await see_through(self.redis.arun(carry_out(self._settings, calls)))

    def run(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        return self.drive(self._settings.transaction(work, write=write))

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """`run`, for use on an event loop."""
        calls = self._settings.transaction(work, write=write)
        if write:
            return await self.adrive(calls)
        return await self.redis.arun(carry_out(self._settings, calls))

    def set_up(self) -> None:
        """Look at the server."""
        self.redis.run(look_at(self._settings))

    async def aset_up(self) -> None:
        """`set_up`, for use on an event loop."""
        await self.redis.arun(look_at(self._settings))

    def vacuum(self) -> None:
        """Have the append-only file written again."""
        self.redis.run(rewrite())

    async def avacuum(self) -> None:
        """`vacuum`, for use on an event loop."""
        await self.redis.arun(rewrite())
