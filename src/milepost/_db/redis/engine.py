"""Carries out Redis effects on a client, in sync code and on an event loop."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any, TypeVar

from milepost._db.calls import amake_calls, make_calls
from milepost._db.loops import from_outside, on_another_loop, running_loop
from milepost._db.redis.commands import RedisEffects
from milepost._db.redis.sending import Sender
from milepost._internal import fork_guard
from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import adrive, drive
from milepost.errors import ForkedProcessError

R = TypeVar("R")


class RedisEngine(Sender):
    """Carries out the effects of generators on one client, sync or async."""

    def __init__(self, client: Any, **settings: Any) -> None:
        super().__init__(client, **settings)
        self._loop = running_loop() if self.is_async else None
        self._pid = os.getpid()

    def run(self, effects: RedisEffects[R]) -> R:
        """Drive a generator in sync code. An async client is called on its loop, from a thread
        other than the loop's."""
        if self.is_async:
            call = partial(self.arun, effects)
            return from_outside(self._loop, call, owner=self.owner, instead="a sync client")
        return drive(effects, lambda effect: make_calls(self.send(effect)))

    async def arun(self, effects: RedisEffects[R]) -> R:
        """`run`, for use on an event loop. A sync client works in a thread."""
        if not self.is_async:
            return await in_thread(self.run, effects)
        self._bind()
        return await adrive(effects, lambda effect: amake_calls(self.send(effect)))

    def _bind(self) -> None:
        """Bind the client to the running loop: connections cannot be used on another loop."""
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
                self.client.connection_pool.reset()  # its connections belong to the ended loop
        self._loop, self._pid = loop, os.getpid()

    def _leave_parents_connections(self) -> None:
        """In a forked child: open other connections, and never finalize those of the parent. A
        finalizer would remove their sockets from the parent's loop, since both processes share its
        epoll object."""
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
        """Close the clients of single nodes of a cluster."""
        for node in self.nodes.values():
            await node.aclose()
        self.nodes.clear()
