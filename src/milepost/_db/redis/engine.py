"""Runs programs on a client of Redis or Valkey, in sync code and on an event loop.

How an effect is carried out (a script that the server does not know yet, a transaction that is
tried again, a connection that is replaced) is written once, in `_Steps`: a generator of calls of
the client. The methods of a sync and of an async client have the same names and parameters, so
the two drivers differ in nothing but that one awaits.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from milepost._db.redis.client import check_client, is_async_client, is_cluster_client
from milepost._db.redis.commands import (
    Command,
    Confirmed,
    Decision,
    Effect,
    Pause,
    Pipeline,
    Program,
    RunScript,
    Scan,
    Waited,
)
from milepost._db.redis.errors import (
    bars_scripts,
    client_errors,
    is_lost,
    is_passing,
    named,
    outcome_unknown,
    translated,
)
from milepost._internal import log
from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import GeneratorDriver
from milepost.errors import ColourError, ConnectionUnusableError, DatabaseBusyError

R = TypeVar("R")
Call: TypeAlias = Callable[[], Any]
"""A call of the client; what it returns is awaited if the client is async."""
Steps: TypeAlias = Generator[Call | Pause, Any, R]

_PAUSES: Final = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0)
"""Seconds before each further attempt on a new connection, 20 in all: a server that restarts, or
its successor, is there by then."""
_AT_FIRST: Final = 3
"""How many of them there are before a server has answered once: its address may be wrong."""
_RACES: Final = 100
"""How often a transaction is tried whose keys others change."""
_PAGE: Final = 500


class RedisEngine:
    """Runs programs on one client. `owner` is the class that errors name."""

    def __init__(self, client: Any, *, owner: str, scripts: bool = True) -> None:
        check_client(client, owner)
        self.client = client
        self.owner = owner
        self.is_async = is_async_client(client)
        self.is_cluster = is_cluster_client(client)
        self.scripts = scripts
        """Whether the server lets us run scripts, as far as is known."""
        self._loop = _running_loop() if self.is_async else None
        self._pid = os.getpid()
        self._is_closed = False
        self._has_answered = False
        self._nodes: dict[str, Any] = {}
        """Clients of single nodes of a cluster, where the cluster client has none."""

    # -- drivers

    def run(self, program: Program[R]) -> R:
        """Carry out a program in sync code."""
        if self.is_async:
            return self._from_outside(partial(self.arun, program))
        steps = GeneratorDriver(program)
        for effect in steps:
            try:
                steps.answer = self._do(effect)
            except Exception as error:
                steps.error = error
        return steps.result

    async def arun(self, program: Program[R]) -> R:
        """`run`, for use on an event loop. A sync client works in a thread."""
        if not self.is_async:
            return await in_thread(self.run, program)
        self._here()
        steps = GeneratorDriver(program)
        for effect in steps:
            try:
                steps.answer = await self._ado(effect)
            except Exception as error:
                steps.error = error
        return steps.result

    def _do(self, effect: Effect) -> Any:
        calls = GeneratorDriver(self._steps(effect))
        for call in calls:
            try:
                if isinstance(call, Pause):
                    time.sleep(call.seconds)
                else:
                    calls.answer = call()
            except BaseException as error:  # a transaction that is broken off gives its keys back
                calls.error = error
        return calls.result

    async def _ado(self, effect: Effect) -> Any:
        calls = GeneratorDriver(self._steps(effect))
        for call in calls:
            try:
                if isinstance(call, Pause):
                    await asyncio.sleep(call.seconds)
                else:
                    answer = call()
                    calls.answer = await answer if isinstance(answer, Awaitable) else answer
            except BaseException as error:  # a transaction that is broken off gives its keys back
                calls.error = error
        return calls.result

    def _here(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is loop and self._pid == os.getpid():
            return
        known = self._loop
        if known is not None and self._pid == os.getpid() and known.is_running():
            raise ColourError(
                f"This {self.owner} is in use on another event loop, and the connections of its "
                "client cannot be shared between loops. Make one for each loop."
            )
        if known is not None and not self.is_cluster:
            self.client.connection_pool.reset()  # its connections were those of the other loop
        self._loop, self._pid = loop, os.getpid()

    def _from_outside(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ColourError(
                f"A sync method of {self.owner} would block the event loop that runs in this "
                "thread. Use the async method."
            )
        if self._loop is None or not self._loop.is_running():
            raise ColourError(
                f"The client of {self.owner} is async and belongs to an event loop, and none is "
                "running. Use the async methods, or give it a sync client."
            )
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def close(self) -> None:
        """Close a sync client, with all its connections."""
        self._is_closed = True
        self.client.close()

    async def aclose(self) -> None:
        """Close an async client, with all its connections."""
        self._is_closed = True
        for node in self._nodes.values():
            await node.aclose()
        self._nodes.clear()
        await self.client.aclose()

    # -- how an effect is carried out

    def _steps(self, effect: Effect) -> Steps[Any]:
        """An effect with its repetitions."""
        if isinstance(effect, Pause):
            yield effect
            return None
        once = _must_not_repeat(effect)
        pauses = _PAUSES if self._has_answered else _PAUSES[:_AT_FIRST]
        for pause in (*pauses, None):
            if self._is_closed:
                # A client would connect again, and no block would close that connection.
                raise ConnectionUnusableError(
                    f"{self.owner} is closed: the block of from_conn_string has ended. Use it "
                    "inside of the block, or make it from a client that stays open."
                )
            try:
                answer = yield from self._attempt(effect)
                self._has_answered = True
                return answer
            except client_errors() as error:
                if not is_lost(error):
                    raise translated(error, self.owner) from error
                if once and not is_passing(error):
                    raise outcome_unknown(error, self.owner) from error
                if pause is None:
                    raise translated(error, self.owner) from error
                log.info(log.STORAGE, "%s connects again: %s.", self.owner, error)
            if pause:
                yield Pause(pause * random.uniform(0.75, 1.25))
        raise AssertionError

    def _attempt(self, effect: Effect) -> Steps[Any]:
        client = self.client
        if isinstance(effect, Command):
            return (yield partial(client.execute_command, *effect.args))
        if isinstance(effect, RunScript):
            return (yield from self._script(effect))
        if isinstance(effect, Waited):
            return (yield from self._waited(effect))
        if isinstance(effect, Scan):
            return (yield self._ascanned(effect) if self.is_async else self._scanned(effect))
        assert isinstance(effect, Pipeline)
        pipe = client.pipeline(transaction=False)
        for one in effect.commands:
            pipe.execute_command(*one.args)
        return (yield pipe.execute)

    def _scanned(self, scan: Scan) -> Call:
        return lambda: list(self.client.scan_iter(match=scan.match, count=_PAGE))

    def _ascanned(self, scan: Scan) -> Call:
        async def names() -> list[bytes]:
            return [one async for one in self.client.scan_iter(match=scan.match, count=_PAGE)]

        return names

    # -- scripts

    def _script(self, run: RunScript) -> Steps[Any]:
        if self.scripts:
            rest = (len(run.keys), *run.keys, *run.args)
            execute = self.client.execute_command
            try:
                return (yield partial(execute, "EVALSHA", run.script.sha, *rest))
            except client_errors() as error:
                if _is_unknown(error):
                    # The server was restarted, or its scripts were flushed: EVAL loads it.
                    return (yield partial(execute, "EVAL", run.script.source, *rest))
                if not bars_scripts(error):
                    raise
                self._note_barred()
        return (yield from self._optimistic(run))

    def _note_barred(self) -> None:
        if self.scripts:
            log.info(log.STORAGE, "%s may run no scripts; it uses transactions.", self.owner)
        self.scripts = False

    def _optimistic(self, run: RunScript) -> Steps[Any]:
        """The script's plan, as a transaction that fails if a key changes meanwhile."""
        if run.plan is None:
            raise ConnectionUnusableError(
                f"{self.owner} needs scripts for this ({run.script.name}), and the server runs "
                "none for this user. Allow EVALSHA and EVAL (ACL: +@scripting)."
            )
        for race in range(_RACES):
            pipe = self.client.pipeline(transaction=True)
            try:
                if run.watch:
                    yield partial(pipe.watch, *run.keys)
                decision = yield from self._planned(pipe, run)
                if not decision.commands:
                    return decision.answer
                if run.watch:
                    pipe.multi()
                for one in decision.commands:
                    pipe.execute_command(*one.args)
                replies = yield pipe.execute
            except named("WatchError") as error:
                if "ConnectionError" in str(error) or "TimeoutError" in str(error):
                    raise _as_lost(error) from error
            else:
                return [*decision.answer, *replies] if decision.with_replies else decision.answer
            finally:
                yield pipe.reset
            yield Pause(random.uniform(0, 0.002 * (race + 1)))
        raise DatabaseBusyError(
            f"{self.owner}: others have changed the same keys at each of {_RACES} attempts. Repeat "
            "the call later."
        )

    def _planned(self, pipe: Any, run: RunScript) -> Steps[Decision]:
        assert run.plan is not None
        plan = GeneratorDriver(run.plan())
        for read in plan:
            plan.answer = yield partial(pipe.execute_command, *read.args)
        return plan.result

    # -- waiting until a write is safe

    def _waited(self, waited: Waited) -> Steps[Confirmed]:
        run = waited.run
        if not self.scripts:
            return Confirmed((yield from self._optimistic(run)), -1, -1)
        rest = (len(run.keys), *run.keys, *run.args)
        node = self._node_of(run.keys[0]) if self.is_cluster else self.client
        for script in (("EVALSHA", run.script.sha), ("EVAL", run.script.source)):
            pipe = node.pipeline(transaction=False)
            pipe.execute_command(*script, *rest)
            if waited.local:
                pipe.execute_command("WAITAOF", waited.local, waited.replicas, waited.timeout)
            if waited.replicas:
                pipe.execute_command("WAIT", waited.replicas, waited.timeout)
            replies = yield partial(pipe.execute, raise_on_error=False)
            reply = replies[0]
            if _is_unknown(reply):
                continue
            if isinstance(reply, Exception):
                if self.is_cluster and isinstance(reply, named("AskError", "MovedError")):
                    # The client follows its cluster; what it wrote is waited for no more.
                    return Confirmed((yield from self._script(run)), -1, -1)
                if bars_scripts(reply):
                    self._note_barred()
                    return Confirmed((yield from self._optimistic(run)), -1, -1)
                raise reply
            return _confirmed(reply, replies[1:], waited)
        raise AssertionError

    def _node_of(self, key: bytes) -> Any:
        """A client of the node that has a key."""
        node = self.client.get_node_from_key(key)
        if not self.is_async:
            return self.client.get_redis_connection(node)
        found = self._nodes.get(node.name)
        if found is None:
            module = __import__(f"{type(self.client).__module__.partition('.')[0]}.asyncio")
            pool = module.asyncio.ConnectionPool(
                connection_class=node.connection_class, **node.connection_kwargs
            )
            found = self._nodes[node.name] = module.asyncio.Redis.from_pool(pool)
        return found


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _must_not_repeat(effect: Effect) -> bool:
    if isinstance(effect, Waited):
        return effect.run.once
    return isinstance(effect, (Command, Pipeline, RunScript)) and effect.once


def _is_unknown(error: Any) -> bool:
    if not isinstance(error, Exception):
        return False
    return isinstance(error, named("NoScriptError")) or str(error).startswith("NOSCRIPT")


def _as_lost(error: BaseException) -> BaseException:
    """A connection that was lost between WATCH and EXEC is told by clients as a race."""
    return named("ConnectionError")[0](str(error))


def _confirmed(reply: Any, rest: list[Any], waited: Waited) -> Confirmed:
    local = replicas = -1
    if waited.replicas and isinstance(rest[-1], int):
        replicas = rest[-1]
    if waited.local and isinstance(rest[0], (list, tuple)):
        local, replicas = int(rest[0][0]), int(rest[0][1])
    return Confirmed(reply, local, replicas)
