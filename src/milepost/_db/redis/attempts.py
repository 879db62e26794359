"""One attempt to carry out an effect: scripts, transactions in their place, WAITAOF, clusters."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from milepost._db.calls import Calls, Pause
from milepost._db.redis.client import check_client, is_async_client, is_cluster_client
from milepost._db.redis.commands import (
    Argument,
    Command,
    Confirmed,
    Effect,
    Everywhere,
    Pipeline,
    RunScript,
    Scan,
    ScriptsBarred,
    Waited,
    unconfirmed,
)
from milepost._db.redis.errors import bars_scripts, client_errors, is_lost, is_moved, named
from milepost._db.redis.guarded import DONE, REFUSED, value_of
from milepost._internal import log
from milepost.errors import DatabaseBusyError

_MAX_RACES: Final = 100
"""Attempts of a transaction whose keys other clients change."""
_RACE_PAUSE_SECONDS: Final = 0.002
"""The longest pause after the first lost race; each further race adds as much."""
_SCAN_COUNT: Final = 500
"""Keys that a server looks at in one round trip of SCAN."""


class Attempts:
    """One client, and what is known of its server. `owner` is the class that errors name."""

    def __init__(self, client: Any, *, owner: str, scripts: bool) -> None:
        check_client(client, owner)
        self.client = client
        self.owner = owner
        self.is_async = is_async_client(client)
        self.is_cluster = is_cluster_client(client)
        self.scripts = scripts
        """Whether scripts may be used; False as soon as the server refuses one."""
        self.nodes: dict[str, Any] = {}
        """Clients of single nodes of a cluster. Only for async clients: a sync cluster client
        has its own."""

    def attempt(self, effect: Effect) -> Calls[Any]:
        """Carry out an effect. Errors are those of the client."""
        return _ATTEMPT[type(effect)](self, effect)

    def _command(self, effect: Command) -> Calls[Any]:
        return (yield partial(self.client.execute_command, *effect.args))

    def _pipeline(self, effect: Pipeline) -> Calls[list[Any]]:
        commands = [one.args for one in effect.commands]
        replies: list[Any] = yield _queued(self.client, commands).execute
        return replies

    def _scan(self, effect: Scan) -> Calls[list[bytes]]:
        names = self.client.scan_iter(match=effect.match, count=_SCAN_COUNT)
        found: list[bytes] = yield partial(_alist if self.is_async else list, names)
        return found

    def _everywhere(self, effect: Everywhere) -> Calls[list[list[Any]]]:
        clients = [self.client]
        if self.is_cluster:
            if self.is_async:
                yield self.client.initialize
            clients = [self._client_of(node) for node in self.client.get_primaries()]
        commands = [one.args for one in effect.commands]
        found = []
        for client in clients:
            replies = yield partial(_queued(client, commands).execute, raise_on_error=False)
            for reply in replies:
                if isinstance(reply, Exception) and is_lost(reply):
                    raise reply
            found.append(replies)
        return found

    # -- scripts

    def _script(self, run: RunScript) -> Calls[Any]:
        if self.scripts:
            by_digest, in_full = _script_commands(run)
            try:
                return (yield partial(self.client.execute_command, *by_digest.args))
            except client_errors() as error:
                if _is_unknown_script(error):
                    # The server was restarted, or its scripts were flushed. EVAL loads the script.
                    return (yield partial(self.client.execute_command, *in_full.args))
                if not bars_scripts(error):
                    raise
                self._note_barred()
        return (yield from self._optimistic(run))

    def _note_barred(self) -> None:
        if self.scripts:
            log.warning(log.STORAGE, "%s may run no scripts; it uses transactions.", self.owner)
        self.scripts = False

    def _optimistic(self, run: RunScript) -> Calls[Any]:
        """Do what a script does as a transaction, which fails if a key changes meanwhile."""
        if run.guarded is None:
            raise ScriptsBarred
        guards, commands, counters = run.guarded
        client = (yield from self._node_of(run.keys[0])) if run.keys else self.client
        for race in range(1, _MAX_RACES + 1):
            pipe = client.pipeline(transaction=True)
            try:
                if guards or counters:
                    yield partial(pipe.watch, *run.keys)
                for at, guard in enumerate(guards, 1):
                    reply = yield partial(pipe.execute_command, *guard.args)
                    if (str(reply).encode() if isinstance(reply, int) else reply) != guard.expected:
                        return [REFUSED, at]
                values: dict[Argument, int] = {}
                for at, counter in enumerate(counters):
                    reply = yield partial(pipe.execute_command, "HGET", *counter)
                    values[value_of(at)] = int(reply or 0) + 1
                    values[value_of(at, negative=True)] = -int(reply or 0) - 1
                if guards or counters:
                    pipe.multi()
                for at, counter in enumerate(counters):
                    pipe.execute_command("HSET", *counter, values[value_of(at)])
                for one in commands:
                    pipe.execute_command(*[values.get(arg, arg) for arg in one.args])
                replies = yield pipe.execute
            except named("WatchError") as error:
                # redis-py reports a connection that was lost between WATCH and EXEC like this.
                if "ConnectionError" in str(error) or "TimeoutError" in str(error):
                    raise named("ConnectionError")[0](str(error)) from error
            else:
                return [DONE, *replies[len(counters) :]]
            finally:
                yield pipe.reset
            yield Pause(random.uniform(0, _RACE_PAUSE_SECONDS * race))
        raise DatabaseBusyError(
            f"{self.owner}: others have changed the same keys at each of {_MAX_RACES} attempts. "
            "Repeat the call later."
        )

    # -- waiting until a write is safe

    def _waited(self, effect: Waited) -> Calls[Confirmed]:
        run = effect.run
        if self.scripts or isinstance(run, Command):
            key, ways = (
                (run.args[1], (run,))
                if isinstance(run, Command)
                else (run.keys[0], _script_commands(run))
            )
            node = yield from self._node_of(key)
            for write in ways:
                reply, *waits = yield from self._send_and_wait(node, write, effect)
                if not _is_unknown_script(reply):
                    break
            if not isinstance(reply, Exception):
                return _confirmed(reply, waits)
            may_follow = bars_scripts(reply) or (self.is_cluster and is_moved(reply))
            if isinstance(run, Command) or not may_follow:
                raise reply
        # A transaction; or the cluster client follows the key to its new node, but on a connection
        # of its choice, where no WAITAOF can follow.
        return unconfirmed((yield from self._script(run)))

    def _send_and_wait(self, node: Any, write: Command, effect: Waited) -> Calls[list[Any]]:
        """The reply to a write, and that to WAITAOF or WAIT, if either is asked for. Errors are
        values."""
        commands: list[tuple[Any, ...]] = [write.args]
        if effect.local:
            commands.append(("WAITAOF", effect.local, effect.replicas, effect.timeout_ms))
        elif effect.replicas:
            commands.append(("WAIT", effect.replicas, effect.timeout_ms))
        replies: list[Any] = yield partial(_queued(node, commands).execute, raise_on_error=False)
        return replies

    # -- nodes of a cluster

    def _node_of(self, key: Any) -> Calls[Any]:
        """The client of the node that has a key; outside of a cluster, the client. For several
        commands on one connection."""
        if not self.is_cluster:
            return self.client
        if self.is_async:
            yield self.client.initialize
        return self._client_of(self.client.get_node_from_key(key))

    def _client_of(self, node: Any) -> Any:
        if not self.is_async:
            return self.client.get_redis_connection(node)
        found = self.nodes.get(node.name)
        if found is None:
            package = type(self.client).__module__.partition(".")[0]  # redis or valkey
            module = import_module(f"{package}.asyncio")
            pool = module.ConnectionPool(
                connection_class=node.connection_class, **node.connection_kwargs
            )
            found = self.nodes[node.name] = module.Redis.from_pool(pool)
        return found


_ATTEMPT: Final[dict[type, Callable[[Attempts, Any], Calls[Any]]]] = {
    Command: Attempts._command,
    Pipeline: Attempts._pipeline,
    RunScript: Attempts._script,
    Waited: Attempts._waited,
    Everywhere: Attempts._everywhere,
    Scan: Attempts._scan,
}
"""Effect → method. `Pause`, which cannot fail, is carried out in `engine.py`."""


async def _alist(names: AsyncIterator[bytes]) -> list[bytes]:
    return [one async for one in names]


def _script_commands(run: RunScript) -> tuple[Command, Command]:
    """The command that runs a script by its digest, and the one that sends its source."""
    rest = (len(run.keys), *run.keys, *run.args)
    return Command(("EVALSHA", run.script.sha, *rest)), Command(("EVAL", run.script.source, *rest))


def _queued(client: Any, commands: Sequence[Sequence[Any]]) -> Any:
    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    return pipe


def _is_unknown_script(reply: Any) -> bool:
    """Whether a reply says that the server does not know a script by its digest."""
    if not isinstance(reply, Exception):
        return False
    return isinstance(reply, named("NoScriptError")) or str(reply).startswith("NOSCRIPT")


def _confirmed(reply: Any, waits: Sequence[Any]) -> Confirmed:
    """`waits` has the reply to WAITAOF or WAIT, if one was sent."""
    if not waits:
        return Confirmed(reply, 0, 0)
    if isinstance(waits[0], int):
        return Confirmed(reply, 0, waits[0])
    if isinstance(waits[0], (list, tuple)):
        return Confirmed(reply, *map(int, waits[0]))
    return unconfirmed(reply)  # the server refused to wait
