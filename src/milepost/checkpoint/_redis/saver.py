"""A saver on Redis: everything but how its sync and async forms are opened and closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from milepost._db.dialect import Bounds, Traits
from milepost._db.operations import Query
from milepost._db.redis.client import make_client
from milepost.checkpoint._contract.names import check_name
from milepost.checkpoint._contract.thread_metadata import ThreadOptions
from milepost.checkpoint._contract.threads import is_wanted
from milepost.checkpoint._redis.engine import SaverEngine
from milepost.checkpoint._redis.rows import Keys
from milepost.checkpoint._redis.settings import Durability, Settings
from milepost.checkpoint._redis.statements import REDIS
from milepost.checkpoint._redis.threads import RedisThreads, seconds
from milepost.checkpoint._sql.threads.registry import Registry
from milepost.errors import ColourError

if TYPE_CHECKING:
    from milepost._db.engine import Engine
    from milepost._db.group_commit import Outcome
    from milepost._db.operations import Operation
    from milepost.checkpoint._contract.thread_admin import Sweeping
    from milepost.checkpoint._contract.threads import ThreadInfo, Wanted
    from milepost.checkpoint._redis.calls import Calls
    from milepost.checkpoint._sql.cache import ThreadCache
    from milepost.checkpoint._sql.read.reader import Reader
    from milepost.checkpoint._sql.rows import Prepared
    from milepost.checkpoint._sql.statements import Statements
    from milepost.checkpoint._sql.write.store import Storer
    from milepost.checkpoint.serde.base import SerializerProtocol

TRAITS: Final = Traits(name="redis", remote=True, settled=(), chain=Bounds(16, 32, 16))
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


class RedisStorage:
    """Steps and threads in Redis or Valkey, by a sync or an async client. Comes before
    `SqlSaver`."""

    dialect = TRAITS
    registry: ClassVar[type[Registry]] = RedisRegistry
    steadfast = True
    is_async: ClassVar[bool]
    engine: Engine
    server: SaverEngine
    _cache: ThreadCache
    _reader: Reader
    _registry: Registry
    _storer: Storer
    _sweeping: Sweeping

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
        """What is promised of a step that was acknowledged; known after the first use."""
        return self.settings.durability

    @property
    def threads(self) -> RedisThreads:
        """Whole threads: listed, created, described, copied, pruned, swept, erased, pinned."""
        return RedisThreads(self.engine, self._sweeping, self._registry, self._reader, self._cache)

    # -- a step in one go

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        return self.server.drive(self._store(steps))

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        return await self.server.adrive(self._store(steps))

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
