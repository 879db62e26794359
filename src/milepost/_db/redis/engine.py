"""Runs programs on a client of Redis or Valkey, in sync code and on an event loop."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any, TypeVar

from milepost._db.calls import amake_calls, make_calls
from milepost._db.loops import from_outside, on_another_loop, running_loop
from milepost._db.redis.commands import Effect, Program
from milepost._db.redis.sending import Sender
from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import adrive, drive

R = TypeVar("R")


class RedisEngine(Sender):
    """Runs programs on one client, sync or async."""

    def __init__(self, client: Any, **settings: Any) -> None:
        super().__init__(client, **settings)
        self._loop = running_loop() if self.is_async else None
        self._pid = os.getpid()

    def run(self, program: Program[R]) -> R:
        """Carry out a program in sync code; on an async client from outside of its loop."""
        if self.is_async:
            call = partial(self.arun, program)
            return from_outside(self._loop, call, owner=self.owner, instead="a sync client")
        return drive(program, self._do)

    async def arun(self, program: Program[R]) -> R:
        """`run`, for use on an event loop. A sync client works in a thread."""
        if not self.is_async:
            return await in_thread(self.run, program)
        self._bind()
        return await adrive(program, self._ado)

    def _do(self, effect: Effect) -> Any:
        return make_calls(self.send(effect))

    async def _ado(self, effect: Effect) -> Any:
        return await amake_calls(self.send(effect))

    def _bind(self) -> None:
        """Stay with the loop of the first call: connections cannot be used on another one."""
        loop, is_forked = asyncio.get_running_loop(), self._pid != os.getpid()
        if self._loop is loop and not is_forked:
            return
        if self._loop is not None:
            if self._loop.is_running() and not is_forked:
                raise on_another_loop(self.owner)
            self.nodes.clear()
            if not self.is_cluster:
                self.client.connection_pool.reset()  # its connections were those of the other loop
        self._loop, self._pid = loop, os.getpid()

    def close(self) -> None:
        """Close a sync client, with all its connections."""
        self.is_closed = True
        self.client.close()

    async def aclose(self) -> None:
        """Close an async client, with all its connections."""
        self.is_closed = True
        await self.close_nodes()
        await self.client.aclose()

    async def close_nodes(self) -> None:
        """Close what was opened besides the client."""
        for node in self.nodes.values():
            await node.aclose()
        self.nodes.clear()
