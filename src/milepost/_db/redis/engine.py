"""Carries out Redis effects on a client, in sync code and on an event loop.

Effects are repeated on a new connection if one is lost.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from milepost._db.calls import (
    Calls,
    Pause,
    amake_calls,
    from_outside,
    make_calls,
    on_another_loop,
    running_loop,
)
from milepost._db.redis.attempts import Attempts
from milepost._db.redis.commands import Effect, RedisEffects, RunScript, Waited
from milepost._db.redis.errors import (
    client_errors,
    is_lost,
    is_moved,
    is_passing,
    outcome_unknown,
    translated,
)
from milepost._internal import fork_guard, log
from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import adrive, drive
from milepost.errors import ConnectionUnusableError, ForkedProcessError

R = TypeVar("R")

RETRY_SECONDS: Final = 20.0
"""An effect is repeated for so long: a server that restarts, or its successor, is ready by then."""
_FIRST_ATTEMPTS: Final = 4
"""Attempts before a server has answered for the first time: its address may be wrong."""
_BASE_PAUSE_SECONDS: Final = 0.025
"""Doubled with each attempt."""
_MAX_PAUSE_SECONDS: Final = 1.0


class RedisEngine(Attempts):
    """Carries out the effects of generators on one client, sync or async."""

    def __init__(
        self, client: Any, *, owner: str, scripts: bool = True, retry_seconds: float | None = None
    ) -> None:
        super().__init__(client, owner=owner, scripts=scripts)
        self.retry_seconds = RETRY_SECONDS if retry_seconds is None else retry_seconds
        self.is_closed = False
        self._has_answered = False
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

    # -- attempts

    def send(self, effect: Effect) -> Calls[Any]:
        """Carry out an effect, and repeat it if the connection is lost."""
        if isinstance(effect, Pause):
            yield effect
            return None
        start = time.monotonic()
        for attempt in count(1):
            if self.is_closed:
                # The client would connect again, and no block would close that connection.
                raise ConnectionUnusableError(
                    f"{self.owner} is closed: the block of from_conn_string has ended. Use it "
                    "inside of the block, or make it from a client that stays open."
                )
            try:
                answer = yield from self.attempt(effect)
                self._has_answered = True
                return answer
            except client_errors() as error:
                pause = self._pause(effect, error, attempt, time.monotonic() - start)
            if pause:
                yield pause
            if self.is_cluster:
                with suppress(*client_errors()):
                    yield self.client.nodes_manager.initialize
        raise AssertionError

    def _pause(
        self, effect: Effect, error: BaseException, attempt: int, seconds: float
    ) -> Pause | None:
        """The pause before the next attempt, if any; raises if the effect is not to be repeated."""
        failure = self._failure(effect, error, attempt, seconds)
        if failure is not None:
            if attempt > 1:
                gave_up = "%s: an operation has failed for good in attempt %d, with %s."
                log.warning(log.STORAGE, gave_up, self._where(effect), attempt, error)
            raise failure from error
        # The second attempt follows at once: servers close idle connections.
        pause = min(_BASE_PAUSE_SECONDS * 2**attempt, _MAX_PAUSE_SECONDS) if attempt > 1 else 0.0
        if attempt.bit_count() == 1:  # attempts 1, 2, 4, …: an outage lasts for many attempts
            again = "%s: attempt %d has failed with %s; again in %.1f s."
            log.warning(log.STORAGE, again, self._where(effect), attempt, error, pause)
        return Pause(pause * random.uniform(0.75, 1.25)) if pause else None

    def _failure(
        self, effect: Effect, error: BaseException, attempt: int, seconds: float
    ) -> Exception | None:
        """What an attempt that is the last one has failed with; None if another one follows."""
        moved = self.is_cluster and is_moved(error)
        if not moved and not is_lost(error):
            return translated(error, self.owner)
        may_be_done = not moved and not is_passing(error)
        script = _script_in(effect)
        if may_be_done and script is not None and script.once:
            return outcome_unknown(error, self.owner, _longest(script))
        is_first = not self._has_answered
        if seconds >= self.retry_seconds or (is_first and attempt >= _FIRST_ATTEMPTS):
            if may_be_done and script is not None and script.writes:
                return outcome_unknown(error, self.owner, _longest(script))
            return translated(error, self.owner)
        return None

    def _where(self, effect: Effect) -> str:
        """Whose attempt it is, and on which thread, if that is known."""
        script = _script_in(effect)
        thread_id = None if script is None else script.thread_id
        return self.owner if thread_id is None else f"{self.owner}, thread '{thread_id}'"


def _script_in(effect: Effect) -> RunScript | None:
    """The script that an effect runs, if it runs one: only scripts have `once` and `writes`."""
    run = effect.run if isinstance(effect, Waited) else effect
    return run if isinstance(run, RunScript) else None


def _longest(script: RunScript) -> int:
    return max((len(one) for one in script.args if isinstance(one, bytes)), default=0)
