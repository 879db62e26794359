"""A saver on Redis: all that its sync and async forms share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, Unpack

from milepost._db import group_commit
from milepost._db.dialect import Bounds, Traits
from milepost._db.engine import Transaction, Transactions
from milepost._db.operations import Execute, Query
from milepost._db.redis.client import make_client
from milepost._db.redis.engine import RedisEngine
from milepost._internal.asyncio_tools import see_through
from milepost.checkpoint._contract.facets import sync_and_async
from milepost.checkpoint._contract.names import check_name
from milepost.checkpoint._contract.thread_admin import thread_id_of
from milepost.checkpoint._contract.thread_metadata import SEALED, ThreadOptions
from milepost.checkpoint._contract.threads import no_such_thread, passes_filter
from milepost.checkpoint._redis.names import ENTRIES, REDIS, SET_TTL
from milepost.checkpoint._redis.registry_statements import THREADS_PER_PAGE
from milepost.checkpoint._redis.rows import FOR_EVER, Keys
from milepost.checkpoint._redis.server import UNSURE, Durability, Settings, rewrite
from milepost.checkpoint._redis.transaction import transaction
from milepost.checkpoint._sql.statements import Statements, just_after
from milepost.checkpoint._sql.threads.registry import Registry
from milepost.checkpoint._sql.threads.retention import SqlThreads
from milepost.errors import ColourError

if TYPE_CHECKING:
    from milepost._db.engine import Engine
    from milepost._db.group_commit import Outcome
    from milepost._db.operations import Operation, Work
    from milepost._db.redis.commands import RedisEffects
    from milepost._db.sweeper import Sweeper
    from milepost.checkpoint._contract.threads import ThreadFilter, ThreadInfo
    from milepost.checkpoint._sql.cache import ThreadCache
    from milepost.checkpoint._sql.read.reader import CheckpointReader
    from milepost.checkpoint._sql.rows import Prepared
    from milepost.checkpoint._sql.write.store import Storer
    from milepost.checkpoint.serde.base import SerializerProtocol


R = TypeVar("R")


class SaverEngine:
    """Runs the operations of a saver on a client, sync or async."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self.redis = RedisEngine(client, owner=settings.owner, scripts=settings.scripts)
        self._settings = settings

    @property
    def client(self) -> Any:
        """The client of redis-py."""
        return self.redis.client

    def run(self, work: Work[R], *, write: bool) -> R:
        """Carry out an operation in one transaction."""
        return self.redis.run(transaction(self._settings, work, write=write))

    async def arun(self, work: Work[R], *, write: bool) -> R:
        """`run`, for use on an event loop; a cancellation waits until a write has ended."""
        running = self.redis.arun(transaction(self._settings, work, write=write))
        return await (see_through(running) if write else running)

    def vacuum(self) -> None:
        """Have the append-only file rewritten, so that it loses what was removed."""
        self.redis.run(rewrite())

    async def avacuum(self) -> None:
        """`vacuum`, for use on an event loop."""
        await self.redis.arun(rewrite())


class RedisThreads(SqlThreads):
    """Whole threads."""

    def _set_ttl(self, thread_id: Any, minutes: float | None) -> Transactions[None]:
        """Let a thread expire so many minutes after its last use; with None, never (pinned).

        This overrides the saver's default. All keys of a thread expire together.
        """
        ttl = FOR_EVER if minutes is None else str(seconds(minutes))
        yield Transaction(partial(self._store_ttl, thread_id_of(thread_id), ttl))

    def _pin(self, thread_id: Any) -> Transactions[None]:
        """Keep a thread for ever. This overrides the saver's default."""
        yield from self._set_ttl(thread_id, None)

    def _store_ttl(self, thread_id: str, ttl: str) -> Operation[None]:
        if not (yield Execute(SET_TTL, (thread_id, ttl))):
            raise no_such_thread(thread_id)

    set_ttl, aset_ttl = sync_and_async(_set_ttl)
    pin, apin = sync_and_async(_pin)


def seconds(minutes: float) -> float:
    """The seconds of a time to live, which callers give in minutes."""
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not minutes > 0:
        raise ValueError(f"A time to live must be a number of minutes above 0, not {minutes!r}.")
    return minutes * 60


TRAITS: Final = Traits(name="redis", remote=True, settled=(), chain=Bounds(16, 32, 16))


class RedisRegistry(Registry):
    """Filters threads in Python, since the server cannot search their metadata."""

    def page(self, wanted: ThreadFilter) -> Operation[list[ThreadInfo]]:
        """Threads in the order of their ids."""
        found = yield from self._chosen(wanted, lambda info: self._judge(info, wanted) is not False)
        return [self._opened(info) for info in found]

    def found(self, wanted: ThreadFilter) -> Operation[list[str]]:
        """The ids of a page. Metadata that does not open does not matter here."""
        found = yield from self._chosen(wanted, lambda info: self._judge(info, wanted) is True)
        return [info.thread_id for info in found]

    def unjudged(self, wanted: ThreadFilter) -> Operation[list[str]]:
        """The threads of which it cannot be told whether they meet the conditions, since their
        metadata does not open."""
        every = wanted._replace(limit=sys.maxsize)
        sealed = yield from self._chosen(every, lambda info: SEALED in info.metadata)
        threads = [(info.thread_id, info.metadata) for info in sealed]
        return self._metadata.unjudged(threads, wanted.metadata)

    def _judge(self, info: ThreadInfo, wanted: ThreadFilter) -> bool | None:
        return self._metadata.judge(info.thread_id, info.metadata, wanted.metadata)

    def _chosen(
        self, wanted: ThreadFilter, is_chosen: Callable[[ThreadInfo], bool]
    ) -> Operation[list[ThreadInfo]]:
        """Threads that are chosen and meet all conditions but those on metadata, which is as it is
        stored."""
        wanted.check()
        if wanted.finds_none:
            return []
        others = wanted._replace(metadata={})
        start = max(wanted.prefix or "", "" if wanted.after is None else just_after(wanted.after))
        found: list[ThreadInfo] = []
        while len(found) < wanted.limit:
            ids = yield Query(REDIS.thread_page, (start, THREADS_PER_PAGE))
            rows = yield Query(ENTRIES, ([id for (id,) in ids],))
            entries = map(self._as_stored, rows)
            found += [one for one in entries if passes_filter(one, others) and is_chosen(one)]
            if len(ids) < THREADS_PER_PAGE:
                break
            start = just_after(ids[-1][0])
        return found[: wanted.limit]


class RedisStorage:
    """Stores steps and threads in Redis or Valkey, with a sync or an async client. As a base class,
    it comes before `SqlSaver`."""

    dialect = TRAITS
    registry: ClassVar[type[Registry]] = RedisRegistry
    steadfast = True
    is_async: ClassVar[bool]
    engine: Engine
    server: SaverEngine
    """The engine again, typed so that its client can be reached."""
    _cache: ThreadCache
    _reader: CheckpointReader
    _registry: Registry
    _storer: Storer
    _sweeper: Sweeper

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        redis_client: Any = None,
        connection_args: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        checkpoint_prefix: str = "milepost",
        checkpoint_write_prefix: str | None = None,  # noqa: ARG002
        serde: SerializerProtocol | None = None,
        wait_aof: bool = True,
        wait_replicas: int = 0,
        allow_eviction: bool = False,
        scripts: bool = True,
        **threads: Unpack[ThreadOptions],
    ) -> None:
        super().__init__(serde=serde, **threads)  # type: ignore[call-arg, misc]
        check_name("checkpoint_prefix", checkpoint_prefix)
        if not checkpoint_prefix or set("{}") & set(checkpoint_prefix):
            raise ValueError(
                f"checkpoint_prefix must be a text without braces, not {checkpoint_prefix!r}: a "
                "cluster keeps the keys of a thread together by the braces in them."
            )
        given = dict(ttl or {})
        default = given.pop("default_ttl", None)
        refresh = bool(given.pop("refresh_on_read", False))
        if given:
            raise ValueError(
                f"ttl has unknown keys {sorted(given)}: use default_ttl (minutes) and "
                "refresh_on_read."
            )
        self.ttl_config = ttl
        self.checkpoint_prefix = checkpoint_prefix
        self.settings = Settings(
            Keys(checkpoint_prefix),
            owner=type(self).__name__,
            ttl=None if default is None else seconds(default),
            refresh_on_read=refresh,
            wait_aof=wait_aof,
            wait_replicas=wait_replicas,
            allow_eviction=allow_eviction,
            scripts=scripts,
        )
        self._owns_client = redis_client is None
        client = self._client(redis_url, connection_args) if self._owns_client else redis_client
        self.engine = self.server = SaverEngine(client, self.settings)
        if self.server.redis.is_async is not self.is_async:
            name = type(self).__name__
            raise ColourError(
                f"{name} needs an async client; a sync one serves {name.removeprefix('Async')}."
                if self.is_async
                else f"{name} needs a sync client; for an async one use Async{name}."
            )

    def _client(self, url: str | None, options: Mapping[str, Any] | None) -> Any:
        if url is None:
            name = type(self).__name__
            raise ValueError(
                f"{name} needs an address or a client: {name}(redis_url) or "
                f"{name}(redis_client=...)."
            )
        return make_client(url, is_async=self.is_async, **(options or {}))

    def _statements(self) -> Statements:
        """Every statement is its name."""
        return REDIS

    @property
    def durability(self) -> Durability:
        """What holds for every step that was acknowledged; known after the first use."""
        fsyncs, replicas = self.settings.fsyncs, self.settings.wait_replicas
        if not self.settings.is_ready:
            return Durability(None, replicas, "not known before the first use: setup()")
        copies = f", and {replicas} replicas have it" if replicas else ""
        if fsyncs:
            text = f"an acknowledged step is on the server's disk (WAITAOF){copies}"
        else:
            text = f"an acknowledged step is in the server's memory{copies}; {UNSURE}"
        return Durability(bool(fsyncs), replicas, text)

    @property
    def threads(self) -> RedisThreads:
        """Whole threads: listed, created, described, copied, pruned, swept, erased, pinned."""
        return RedisThreads(self.engine, self._sweeper, self._registry, self._reader, self._cache)

    # -- storing steps

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        return self.server.redis.run(self._store(steps))

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        return await see_through(self.server.redis.arun(self._store(steps)))

    def _store(self, steps: Sequence[Prepared]) -> RedisEffects[Outcome]:
        """Store steps by thread and run: only keys of one thread are on one server for sure."""
        outcome: Outcome = []
        for (_, token), some in groupby(steps, lambda step: (step.place.thread_id, step.token)):
            outcome += yield from self._store_some(list(some), token)
        return outcome

    def _store_some(self, steps: Sequence[Prepared], token: str | None) -> RedisEffects[Outcome]:
        work = partial(self._storer.steps, steps)
        start = time.monotonic()
        outcome: Outcome
        try:
            outcome = yield from transaction(self.settings, work, write=True, owner=token)
        except Exception as error:
            outcome = [error] * len(steps)
        except BaseException:
            self._storer.settle(steps, [RuntimeError("the commit was interrupted")] * len(steps))
            raise
        if (seconds := time.monotonic() - start) > group_commit.SLOW:
            self._storer.log_slow(steps, seconds)
        self._storer.settle(steps, outcome)
        return outcome
