"""An effect as calls of a client: scripts, transactions, waiting, attempts on a new connection."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final

from milepost._db.calls import Pause, Steps
from milepost._db.redis.client import check_client, is_async_client, is_cluster_client
from milepost._db.redis.commands import (
    Argument,
    Command,
    Confirmed,
    Decision,
    Effect,
    Everywhere,
    Pipeline,
    RunScript,
    Scan,
    Waited,
)
from milepost._db.redis.errors import (
    bars_scripts,
    client_errors,
    is_lost,
    is_moved,
    is_passing,
    named,
    outcome_unknown,
    translated,
)
from milepost._internal import log
from milepost._internal.generators import GeneratorDriver
from milepost.errors import ConnectionUnusableError, DatabaseBusyError

PATIENCE: Final = 20.0
"""Seconds of attempts: a server that restarts, or its successor, is there by then."""
_LONGEST_PAUSE: Final = 1.0
_AT_FIRST: Final = 4
"""Attempts before a server has answered once: its address may be wrong."""
_RACES: Final = 100
"""How often a transaction is tried whose keys others change."""
_PAGE: Final = 500


class Sender:
    """One client, and what is known of its server. `owner` is the class that errors name."""

    def __init__(
        self, client: Any, *, owner: str, scripts: bool = True, patience: float | None = None
    ) -> None:
        check_client(client, owner)
        self.client = client
        self.owner = owner
        self.is_async = is_async_client(client)
        self.is_cluster = is_cluster_client(client)
        self.scripts = scripts
        """Whether the server lets us run scripts, as far as is known."""
        self.patience = PATIENCE if patience is None else patience
        self.is_closed = False
        self._has_answered = False
        self.nodes: dict[str, Any] = {}
        """Clients of single nodes of a cluster, where the cluster client has none."""

    def send(self, effect: Effect) -> Steps[Any]:
        """An effect with its repetitions."""
        if isinstance(effect, Pause):
            yield effect
            return None
        start = time.monotonic()
        for attempt in count(1):
            if self.is_closed:
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
        """What to wait for before another attempt; raises if there is to be none."""
        failure = self._failure(effect, error, attempt, seconds)
        if failure is not None:
            if attempt > 1:
                gave_up = "%s: an operation has failed for good in attempt %d, with %s."
                log.warning(log.STORAGE, gave_up, self._where(effect), attempt, error)
            raise failure from error
        # At once at first: a server closes connections that were idle.
        pause = min(0.025 * 2**attempt, _LONGEST_PAUSE) if attempt > 1 else 0.0
        if attempt.bit_count() == 1:  # 1, 2, 4, …: an outage lasts for many attempts
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
        change = effect.run if isinstance(effect, Waited) else effect
        if may_be_done and getattr(change, "once", False):
            return outcome_unknown(error, self.owner)
        if seconds >= self.patience or (attempt >= _AT_FIRST and not self._has_answered):
            if may_be_done and getattr(change, "writes", False):
                return outcome_unknown(error, self.owner)
            return translated(error, self.owner)
        return None

    def _where(self, effect: Effect) -> str:
        """Whose attempt it is, and on which thread, if that is known."""
        change = effect.run if isinstance(effect, Waited) else effect
        thread_id = getattr(change, "thread_id", None)
        return self.owner if thread_id is None else f"{self.owner}, thread '{thread_id}'"

    def _attempt(self, effect: Effect) -> Steps[Any]:
        if isinstance(effect, Command):
            return (yield partial(self.client.execute_command, *effect.args))
        if isinstance(effect, RunScript):
            return (yield from self._script(effect))
        if isinstance(effect, Waited):
            return (yield from self._waited(effect))
        if isinstance(effect, Everywhere):
            return (yield from self._everywhere(effect))
        if isinstance(effect, Scan):
            names = self.client.scan_iter(match=effect.match, count=_PAGE)
            return (yield partial(_alist if self.is_async else list, names))
        assert isinstance(effect, Pipeline)
        commands = [one.args for one in effect.commands]
        client = (yield from self._at(commands[0][1])) if effect.atomic else self.client
        return (yield _queued(client, commands, atomic=effect.atomic).execute)

    # -- scripts

    def _script(self, run: RunScript) -> Steps[Any]:
        if self.scripts:
            by_digest, in_full = _script_commands(run)
            try:
                return (yield partial(self.client.execute_command, *by_digest))
            except client_errors() as error:
                if _is_unknown(error):
                    # The server was restarted, or its scripts were flushed: EVAL loads it.
                    return (yield partial(self.client.execute_command, *in_full))
                if not bars_scripts(error):
                    raise
                self._note_barred()
        return (yield from self._optimistic(run))

    def _note_barred(self) -> None:
        if self.scripts:
            log.warning(log.STORAGE, "%s may run no scripts; it uses transactions.", self.owner)
        self.scripts = False

    def _optimistic(self, run: RunScript) -> Steps[Any]:
        """The script's plan, as a transaction that fails if a key changes meanwhile."""
        if run.plan is None:
            raise ConnectionUnusableError(
                f"{self.owner} needs scripts for this ({run.script.name}), and the server runs "
                "none for this user. Allow EVALSHA and EVAL (ACL: +@scripting)."
            )
        client = (yield from self._at(run.keys[0])) if run.keys else self.client
        for race in range(_RACES):
            pipe = client.pipeline(transaction=True)
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
        forms: Sequence[tuple[Argument, ...]]
        if isinstance(run, Command):
            forms, key = [run.args], run.args[1]
        elif self.scripts:
            forms, key = _script_commands(run), run.keys[0]
        else:
            return Confirmed((yield from self._optimistic(run)), -1, -1)
        node = yield from self._at(key)
        for form in forms:
            commands: list[Sequence[Any]] = [form]
            if waited.local:
                commands.append(("WAITAOF", waited.local, waited.replicas, waited.timeout))
            elif waited.replicas:
                commands.append(("WAIT", waited.replicas, waited.timeout))
            replies = yield partial(_queued(node, commands).execute, raise_on_error=False)
            reply = replies[0]
            if _is_unknown(reply):
                continue
            if isinstance(reply, Exception):
                if isinstance(run, RunScript):
                    if self.is_cluster and is_moved(reply):
                        # The client follows its cluster; what it wrote is waited for no more.
                        return Confirmed((yield from self._script(run)), -1, -1)
                    if bars_scripts(reply):
                        self._note_barred()
                        return Confirmed((yield from self._optimistic(run)), -1, -1)
                raise reply
            return _confirmed(reply, replies[1:])
        raise AssertionError

    # -- nodes of a cluster

    def _at(self, key: Any) -> Steps[Any]:
        """The client, or that of the node that has a key: what needs one connection for several
        commands."""
        if not self.is_cluster:
            return self.client
        if self.is_async:
            yield self.client.initialize
        return self._client_of(self.client.get_node_from_key(key))

    def _everywhere(self, effect: Everywhere) -> Steps[list[list[Any]]]:
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

    def _client_of(self, node: Any) -> Any:
        if not self.is_async:
            return self.client.get_redis_connection(node)
        found = self.nodes.get(node.name)
        if found is None:
            module = __import__(f"{type(self.client).__module__.partition('.')[0]}.asyncio")
            pool = module.asyncio.ConnectionPool(
                connection_class=node.connection_class, **node.connection_kwargs
            )
            found = self.nodes[node.name] = module.asyncio.Redis.from_pool(pool)
        return found


async def _alist(names: AsyncIterator[bytes]) -> list[bytes]:
    return [one async for one in names]


def _script_commands(run: RunScript) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """A script by its digest, and in full."""
    rest = (len(run.keys), *run.keys, *run.args)
    return ("EVALSHA", run.script.sha, *rest), ("EVAL", run.script.source, *rest)


def _queued(client: Any, commands: Sequence[Sequence[Any]], *, atomic: bool = False) -> Any:
    pipe = client.pipeline(transaction=atomic)
    for command in commands:
        pipe.execute_command(*command)
    return pipe


def _is_unknown(error: Any) -> bool:
    if not isinstance(error, Exception):
        return False
    return isinstance(error, named("NoScriptError")) or str(error).startswith("NOSCRIPT")


def _as_lost(error: BaseException) -> BaseException:
    """A connection that was lost between WATCH and EXEC is told by clients as a race."""
    return named("ConnectionError")[0](str(error))


def _confirmed(reply: Any, rest: Sequence[Any]) -> Confirmed:
    """`rest` is the reply to WAITAOF or WAIT, if one was sent."""
    if not rest:
        return Confirmed(reply, 0, 0)
    if isinstance(rest[0], int):
        return Confirmed(reply, 0, rest[0])
    if isinstance(rest[0], (list, tuple)):
        return Confirmed(reply, *map(int, rest[0]))
    return Confirmed(reply, -1, -1)
