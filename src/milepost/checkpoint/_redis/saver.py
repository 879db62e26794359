"""The part of a saver on Redis that its sync and async forms share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Unpack

from milepost._db.dialect import Bounds, Dialect
from milepost._db.operations import Query
from milepost.checkpoint._contract.names import check_name
from milepost.checkpoint._contract.thread_metadata import ThreadOptions
from milepost.checkpoint._contract.threads import is_wanted
from milepost.checkpoint._redis.rows import Keys
from milepost.checkpoint._redis.settings import Durability, Settings
from milepost.checkpoint._redis.statements import REDIS
from milepost.checkpoint._redis.threads import RedisThreads, seconds
from milepost.checkpoint._sql.saver import SqlSaver
from milepost.checkpoint._sql.threads.registry import Registry
from milepost.errors import MissingDependencyError

if TYPE_CHECKING:
    from milepost._db.group_commit import Outcome
    from milepost._db.operations import Operation
    from milepost.checkpoint._contract.threads import ThreadInfo, Wanted
    from milepost.checkpoint._redis.calls import Calls
    from milepost.checkpoint._redis.engine import AsyncRedisEngine, RedisEngine
    from milepost.checkpoint._sql.rows import Prepared
    from milepost.checkpoint._sql.statements import Statements
    from milepost.checkpoint.serde.base import SerializerProtocol

_NOTHING: Final = ""
DIALECT: Final = Dialect(
    name="redis",
    bytes=_NOTHING,
    real=_NOTHING,
    text=_NOTHING,
    json=_NOTHING,
    compact=_NOTHING,
    packed=_NOTHING,
    pairs=_NOTHING,
    items=_NOTHING,
    int=_NOTHING,
    lock=_NOTHING,
    remote=True,
    refuses=False,
    settled=(),
    chain=Bounds(16, 32, 16),
)
"""What a saver asks of a dialect besides its words, of which there are none here."""
_PAGE: Final = 200


class RedisRegistry(Registry):
    """Threads are filtered here: the server knows nothing of their metadata."""

    def page(self, wanted: Wanted) -> Operation[list[ThreadInfo]]:
        """Threads in the order of their ids."""
        wanted.check()
        after = max(wanted.after or "", _before(wanted.prefix))
        found: list[ThreadInfo] = []
        while len(found) < wanted.limit:
            ids = yield Query("thread_page", (after, _PAGE))
            rows = yield Query("entries", ([id for (id,) in ids],))
            found += [info for row in rows if is_wanted(info := self._info(row), wanted)]
            if len(ids) < _PAGE:
                break
            after = ids[-1][0]
        return found[: wanted.limit]

    def ids(self, after: str | None, limit: int) -> Operation[list[str]]:
        """The ids of threads in their order."""
        rows = yield Query("thread_page", (after or "", limit))
        return [id for (id,) in rows]


def _before(prefix: str | None) -> str:
    """A text that all ids with a prefix come after, and few others."""
    return prefix[:-1] if prefix else ""


class RedisStorage(SqlSaver):
    """Keeps threads in Redis."""

    dialect = DIALECT
    registry = RedisRegistry
    steadfast = True
    engine: RedisEngine | AsyncRedisEngine

    def __init__(
        self,
        *,
        serde: SerializerProtocol | None,
        ttl: Mapping[str, Any] | None,
        checkpoint_prefix: str,
        wait_aof: bool,
        wait_replicas: int,
        allow_eviction: bool,
        scripts: bool,
        **threads: Unpack[ThreadOptions],
    ) -> None:
        super().__init__(serde=serde, **threads)
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
            ttl=None if default is None else seconds(default),
            refresh_on_read=refresh,
            wait_aof=wait_aof,
            wait_replicas=wait_replicas,
            allow_eviction=allow_eviction,
            scripts=scripts,
        )

    def _statements(self) -> Statements:
        """Every statement is its name."""
        return REDIS

    @property
    def durability(self) -> Durability:
        """What is promised of a step that was acknowledged; known after the first use."""
        return self.settings.durability

    @property
    def threads(self) -> RedisThreads:
        """Whole threads: listed, created, described, copied, pruned, swept, erased, pinned."""
        return RedisThreads(self.engine, self._sweeping, self._registry, self._reader, self._cache)

    # -- a step in one go

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        return self.engine.drive(self._store(steps))

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        return await self.engine.adrive(self._store(steps))

    def _store(self, steps: Sequence[Prepared]) -> Calls[Outcome]:
        """Thread by thread, and run by run: what is stored together is on one server."""
        outcome: Outcome = []
        for (_, token), some in groupby(steps, lambda step: (step.place.thread_id, step.token)):
            outcome += yield from self._store_some(list(some), token)
        return outcome

    def _store_some(self, steps: Sequence[Prepared], token: str | None) -> Calls[Outcome]:
        def work() -> Operation[Outcome]:
            return self._storer.steps(steps)

        outcome: Outcome
        try:
            outcome = yield from self.settings.transaction(work, write=True, owner=token)
        except Exception as error:
            outcome = [error] * len(steps)
        except BaseException:
            self._storer.settle(steps, [RuntimeError("the commit was broken off")] * len(steps))
            raise
        self._storer.settle(steps, outcome)
        return outcome


def client_of(
    owner: str, url: str | None, client: Any, given: Mapping[str, Any] | None, *, is_async: bool
) -> Any:
    """The client that a saver was given, or one for an address."""
    if client is not None:
        return client
    if url is None:
        raise ValueError(
            f"{owner} needs an address or a client: {owner}(redis_url) or "
            f"{owner}(redis_client=...)."
        )
    try:
        import redis
        import redis.asyncio
    except ImportError as error:
        raise MissingDependencyError(
            f"{owner} needs redis-py: pip install 'milepost[redis]'."
        ) from error
    options = dict(given or {})
    is_cluster = options.pop("cluster", False)
    if is_cluster:
        kind: Any = redis.asyncio.RedisCluster if is_async else redis.RedisCluster
    else:
        kind = redis.asyncio.Redis if is_async else redis.Redis
    return kind.from_url(url, **options)
