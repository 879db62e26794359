"""Runs programs on a client of Redis or Valkey, in sync code and on an event loop."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any, TypeVar

from milepost._db.calls import amake_calls, make_calls
from milepost._db.loops import from_outside, on_another_loop, running_loop
from milepost._db.redis.commands import Program
from milepost._db.redis.sending import Sender
from milepost._internal import fork_guard
from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import adrive, drive
from milepost.errors import ForkedProcessError

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
        return drive(program, lambda effect: make_calls(self.send(effect)))

    async def arun(self, program: Program[R]) -> R:
        """`run`, for use on an event loop. A sync client works in a thread."""
        if not self.is_async:
            return await in_thread(self.run, program)
        self._bind()
        return await adrive(program, lambda effect: amake_calls(self.send(effect)))

    def _bind(self) -> None:
        """Stay with the loop of the first call: connections cannot be used on another one."""
        loop = asyncio.get_running_loop()
        if self._pid != os.getpid():
            self._leave_parents_connections()
        elif self._loop is loop:
            return
        elif self._loop is not None:
            if self._loop.is_running():
                raise on_another_loop(self.owner)
            self.nodes.clear()
            if not self.is_cluster:
                self.client.connection_pool.reset()  # its connections were those of the other loop
        self._loop, self._pid = loop, os.getpid()

    def _leave_parents_connections(self) -> None:
        """In a forked child: open other connections, and never finalize those of the parent. They
        would be taken off the parent's loop, whose waiting for sockets both processes share."""
        if self.is_cluster:
            raise ForkedProcessError(
                f"This process was forked after the {self.owner} was made, and its cluster client "
                "holds connections of the parent. Make the client and what uses it in each process "
                "after the fork (with gunicorn, in `post_fork`)."
            )
        pool = self.client.connection_pool
        fork_guard.keep_for_ever(dict(vars(pool)), *self.nodes.values())
        self.nodes.clear()
        pool.reset()

    def close(self) -> None:
        """Close a sync client, with all its connections."""
        self.is_closed = True
        self.client.close()

    async def aclose(self) -> None:
        """Close an async client, with all its connections; in a forked child, with none."""
        self.is_closed = True
        if self._pid != os.getpid():
            return
        await self.close_nodes()
        await self.client.aclose()

    async def close_nodes(self) -> None:
        """Close what was opened besides the client."""
        for node in self.nodes.values():
            await node.aclose()
        self.nodes.clear()
