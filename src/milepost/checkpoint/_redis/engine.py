"""Carries out a saver's operations on a client of redis-py or valkey-py, sync or async."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from milepost._internal.asyncio_tools import in_thread
from milepost._internal.generators import adrive, drive
from milepost.checkpoint._redis.retries import Retries, is_answer
from milepost.checkpoint._redis.server import (
    Commands,
    Effect,
    Everywhere,
    Pause,
    Watched,
    carry_out,
    look_at,
    rewrite,
)
from milepost.errors import ColourError, ConnectionUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from milepost._db.group_commit import Committer, Outcome, Waiting
    from milepost._db.operations import Work
    from milepost.checkpoint._redis.calls import Call, Calls
    from milepost.checkpoint._redis.settings import Settings

R = TypeVar("R")
S = TypeVar("S")


class _Engine:
    """What both engines have."""

    def __init__(self, client: Any, settings: Settings, *, owns: bool) -> None:
        pool = getattr(client, "connection_pool", None)
        given = getattr(pool, "connection_kwargs", None) or getattr(client, "connection_kwargs", {})
        if given.get("decode_responses"):
            raise ConnectionUnusableError(
                "The Redis client decodes what it reads: make it without decode_responses=True."
            )
        self.client = client
        self.settings = settings
        self.owns = owns
        self.is_cluster = hasattr(client, "get_node_from_key")
        self._nodes: dict[Any, Any] = {}


class RedisEngine(_Engine):
    """A sync client, which several threads may use. Async callers wait in threads."""

    def drive(self, calls: Calls[R]) -> R:
        """Carry out calls."""
        return drive(calls, self._carry_out)

    async def adrive(self, calls: Calls[R]) -> R:
        """`drive`, for use on an event loop; a cancellation waits until it has ended."""
        return await _to_its_end(asyncio.ensure_future(in_thread(self.drive, calls)))

    def run(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        return self.drive(self.settings.transaction(work, write=write))

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """`run`, for use on an event loop."""
        return await in_thread(self.run, work, write=write)

    def set_up(self) -> None:
        """Look at the server."""
        drive(look_at(self.settings), self._effect)

    def vacuum(self) -> None:
        """Have the append-only file written again."""
        drive(rewrite(), self._effect)

    async def avacuum(self) -> None:
        """`vacuum`, for use on an event loop."""
        await in_thread(self.vacuum)

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Not used: a saver on Redis commits thread by thread."""
        raise NotImplementedError

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Not used: a saver on Redis commits thread by thread."""
        raise NotImplementedError

    def close(self) -> None:
        """Close a client that is the engine's own."""
        if self.owns:
            self.client.close()

    def _carry_out(self, call: Call) -> Any:
        return drive(carry_out(self.settings, call), self._effect)

    def _effect(self, effect: Effect) -> Any:
        if isinstance(effect, Pause):
            time.sleep(effect.seconds)
            return None
        retries = Retries(self.settings, effect, is_cluster=self.is_cluster)
        while True:
            try:
                if isinstance(effect, Commands):
                    return self._commands(effect)
                if isinstance(effect, Watched):
                    return self._watched(effect)
                return self._everywhere(effect)
            except Exception as error:
                time.sleep(retries.pause(error))
            if self.is_cluster:
                with suppress(Exception):
                    self.client.nodes_manager.initialize()

    def _at(self, key: bytes | None) -> Any:
        if key is None or not self.is_cluster:
            return self.client
        return self.client.get_redis_connection(self.client.get_node_from_key(key.decode()))

    def _commands(self, effect: Commands) -> Any:
        client = self._at(effect.key)
        if len(effect.commands) == 1 and not effect.atomic and effect.key is not None:
            try:
                return [client.execute_command(*effect.commands[0])]
            except Exception as error:
                return [_reply(error)]
        pipe = client.pipeline(transaction=effect.atomic)
        for command in effect.commands:
            pipe.execute_command(*command)
        return _replies(pipe.execute(raise_on_error=False))

    def _watched(self, effect: Watched) -> list[Any] | None:
        with self._at(effect.key).pipeline(transaction=True) as pipe:
            pipe.watch(effect.key)
            commands = effect.choose(pipe.immediate_execute_command(*effect.look))
            if commands is None:
                return None
            pipe.multi()
            for command in commands:
                pipe.execute_command(*command)
            try:
                return pipe.execute()  # type: ignore[no-any-return]
            except Exception as error:
                if type(error).__name__ == "WatchError":
                    return None
                raise

    def _everywhere(self, effect: Everywhere) -> list[Any]:
        clients = [self.client]
        if self.is_cluster:
            nodes = self.client.get_primaries()
            clients = [self.client.get_redis_connection(node) for node in nodes]
        if effect.scan is not None:
            return [
                key for client in clients for key in client.scan_iter(match=effect.scan, count=500)
            ]
        found = []
        for client in clients:
            try:
                found.append(client.execute_command(*effect.command))
            except Exception as error:
                found.append(_reply(error))
        return found


class AsyncRedisEngine(_Engine):
    """An async client on one event loop, which sync callers reach from other threads."""

    def __init__(self, client: Any, settings: Settings, *, owns: bool) -> None:
        super().__init__(client, settings, owns=owns)
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    async def adrive(self, calls: Calls[R]) -> R:
        """Carry out calls; a cancellation waits until they have ended."""
        self._bind()
        return await _to_its_end(asyncio.ensure_future(adrive(calls, self._carry_out)))

    def drive(self, calls: Calls[R]) -> R:
        """`adrive`, from a thread that is not the loop's."""
        return self._from_outside(lambda: self.adrive(calls))

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        self._bind()
        calls = self.settings.transaction(work, write=write)
        return await (self.adrive(calls) if write else adrive(calls, self._carry_out))

    def run(self, work: Work[R], *, write: bool) -> R:
        """`arun`, from a thread that is not the loop's."""
        return self._from_outside(lambda: self.arun(work, write=write))

    async def aset_up(self) -> None:
        """Look at the server."""
        self._bind()
        await adrive(look_at(self.settings), self._effect)

    async def avacuum(self) -> None:
        """Have the append-only file written again."""
        await adrive(rewrite(), self._effect)

    def vacuum(self) -> None:
        """`avacuum`, from a thread that is not the loop's."""
        self._from_outside(self.avacuum)

    def commit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Not used: a saver on Redis commits thread by thread."""
        raise NotImplementedError

    async def acommit(self, committer: Committer[S], waiting: Waiting[S]) -> Outcome:
        """Not used: a saver on Redis commits thread by thread."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close a client that is the engine's own, and the connections to the nodes."""
        for client in self._nodes.values():
            await client.aclose()
        if self.owns:
            await self.client.aclose()

    def _bind(self) -> None:
        """Stay with the loop of the first call: connections cannot be used on another one."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise ColourError(
                "This AsyncRedisSaver is in use on another event loop, and its connections cannot "
                "be shared between loops. Make one for each loop."
            )
        if self._loop is not None and not self.is_cluster:
            self.client.connection_pool.reset()
        self._nodes.clear()
        self._loop = loop

    def _from_outside(self, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ColourError(
                "A sync method of AsyncRedisSaver would block the event loop that runs in this "
                "thread. Use the async method."
            )
        if self._loop is None or not self._loop.is_running():
            raise ColourError(
                "The connections of an AsyncRedisSaver belong to an event loop, and none is "
                "running. Use the async methods, or RedisSaver in sync programs."
            )
        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    async def _carry_out(self, call: Call) -> Any:
        return await adrive(carry_out(self.settings, call), self._effect)

    async def _effect(self, effect: Effect) -> Any:
        if isinstance(effect, Pause):
            await asyncio.sleep(effect.seconds)
            return None
        retries = Retries(self.settings, effect, is_cluster=self.is_cluster)
        while True:
            try:
                if isinstance(effect, Commands):
                    return await self._commands(effect)
                if isinstance(effect, Watched):
                    return await self._watched(effect)
                return await self._everywhere(effect)
            except Exception as error:
                pause = retries.pause(error)
            await asyncio.sleep(pause)
            if self.is_cluster:
                with suppress(Exception):
                    await self.client.nodes_manager.initialize()

    async def _at(self, key: bytes | None) -> Any:
        if key is None or not self.is_cluster:
            return self.client
        await self.client.initialize()
        return self._client_of(self.client.get_node_from_key(key.decode()))

    def _client_of(self, node: Any) -> Any:
        """A client for one node of a cluster: WAITAOF needs the connection that has written."""
        found = self._nodes.get(node.name)
        if found is None:
            from redis.asyncio import Connection, ConnectionPool, Redis

            kind = getattr(node, "connection_class", Connection)
            given = {**node.connection_kwargs, "host": node.host, "port": node.port}
            found = Redis.from_pool(ConnectionPool(connection_class=kind, **given))
            self._nodes[node.name] = found
        return found

    async def _commands(self, effect: Commands) -> Any:
        client = await self._at(effect.key)
        if len(effect.commands) == 1 and not effect.atomic and effect.key is not None:
            try:
                return [await client.execute_command(*effect.commands[0])]
            except Exception as error:
                return [_reply(error)]
        pipe = client.pipeline(transaction=effect.atomic)
        for command in effect.commands:
            pipe.execute_command(*command)
        return _replies(await pipe.execute(raise_on_error=False))

    async def _watched(self, effect: Watched) -> list[Any] | None:
        client = await self._at(effect.key)
        async with client.pipeline(transaction=True) as pipe:
            await pipe.watch(effect.key)
            commands = effect.choose(await pipe.immediate_execute_command(*effect.look))
            if commands is None:
                return None
            pipe.multi()
            for command in commands:
                pipe.execute_command(*command)
            try:
                return await pipe.execute()  # type: ignore[no-any-return]
            except Exception as error:
                if type(error).__name__ == "WatchError":
                    return None
                raise

    async def _everywhere(self, effect: Everywhere) -> list[Any]:
        clients = [self.client]
        if self.is_cluster:
            await self.client.initialize()
            clients = [self._client_of(node) for node in self.client.get_primaries()]
        found: list[Any] = []
        for client in clients:
            if effect.scan is not None:
                found += [key async for key in client.scan_iter(match=effect.scan, count=500)]
                continue
            try:
                found.append(await client.execute_command(*effect.command))
            except Exception as error:
                found.append(_reply(error))
        return found


def _reply(error: Exception) -> Exception:
    """An error that the server has answered with; anything else is raised."""
    if not is_answer(error):
        raise error
    return error


def _replies(found: Sequence[Any]) -> Sequence[Any]:
    for reply in found:
        if isinstance(reply, Exception):
            _reply(reply)
    return found


async def _to_its_end(task: asyncio.Future[R]) -> R:
    """What a task comes to. A cancellation waits for the end of the task."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except Exception:
            break
    if cancelled is not None:
        with suppress(Exception):
            task.exception()
        raise cancelled
    return task.result()
