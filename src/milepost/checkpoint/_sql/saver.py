"""The part of a saver that all databases share, sync and async.

A method makes an operation and hands it to the engine. Sync and async methods differ only in how
they wait.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from milepost._db.operations import BatchableRead, Operation, Query, Work
from milepost._db.sweeper import Sweeper
from milepost._internal import fork_guard
from milepost._internal.fork_guard import ProcessBound
from milepost._internal.generators import GeneratorDriver
from milepost.checkpoint._contract.faceted_saver import FacetedSaver
from milepost.checkpoint._contract.facets import method_of
from milepost.checkpoint._contract.names import check_name, check_place
from milepost.checkpoint._contract.older_names import with_metadata_of
from milepost.checkpoint._contract.records import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    place_of,
)
from milepost.checkpoint._contract.step_saver import (
    Fence,
    NewCheckpoint,
    StepCommit,
    StepSaver,
    TaskWrites,
)
from milepost.checkpoint._contract.thread_metadata import (
    ThreadMetadata,
    keys_of_thread,
    keys_to_seal,
)
from milepost.checkpoint._contract.versions import TextVersions
from milepost.checkpoint._delta.encode import Codec
from milepost.checkpoint._sql.admin.maintenance import DatabaseAdmin
from milepost.checkpoint._sql.cache import CACHE_LIMIT, ThreadCache
from milepost.checkpoint._sql.read.delta_history import history
from milepost.checkpoint._sql.read.listing import Listing
from milepost.checkpoint._sql.read.reader import CheckpointReader
from milepost.checkpoint._sql.rows import Prepared
from milepost.checkpoint._sql.statements import Statements
from milepost.checkpoint._sql.threads import lock
from milepost.checkpoint._sql.threads.registry import Registry
from milepost.checkpoint._sql.threads.retention import SqlThreads
from milepost.checkpoint._sql.write.prepare import Preparer
from milepost.checkpoint._sql.write.store import Storer
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.types import MISSING, RunnableConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from milepost._db.dialect import Traits
    from milepost._db.engine import Engine
    from milepost.checkpoint.serde.base import SerializerProtocol


def _admin(saver: SqlSaver) -> DatabaseAdmin:
    return saver.admin


@cache
def queries_for(statements: Statements, dialect: Traits) -> Statements:
    """Statements with the driver's placeholders for parameters."""
    names = Statements.__annotations__
    return Statements(**{name: dialect.placed(getattr(statements, name)) for name in names})


class SqlSaver(  # type: ignore[misc] # what prune returns
    FacetedSaver, StepSaver[Prepared], ProcessBound, TextVersions, BaseCheckpointSaver[str]
):
    """Keeps threads in a database."""

    dialect: ClassVar[Traits]
    statements: ClassVar[Statements]
    """The statements in the words of the database, with `?` for parameters."""
    registry: ClassVar[type[Registry]] = Registry
    engine: Engine
    _cache_limit = CACHE_LIMIT

    def __init__(
        self,
        *,
        serde: SerializerProtocol | None = None,
        thread_metadata: Iterable[str] | None = (),
        seal_thread_metadata: bool | Iterable[str] | None = False,
    ) -> None:
        super().__init__(serde=serde)
        self.thread_metadata = keys_of_thread(thread_metadata)
        self._seal_thread_metadata = keys_to_seal(seal_thread_metadata)
        self._sweeper = Sweeper(type(self).__name__)
        self._queries = self._statements()
        self._assemble()

    def _statements(self) -> Statements:
        """The statements that the saver's operations yield."""
        return queries_for(self.statements, self.dialect)

    def _assemble(self) -> None:
        """Make the parts that depend on the serializer."""
        self._cache = ThreadCache(self._cache_limit)
        self._codec = Codec(self.serde, self._cache.copies)
        self._metadata = ThreadMetadata(self.serde, self._seal_thread_metadata)
        self._registry = self.registry(self.dialect, self._queries, self._metadata)
        self._reader = CheckpointReader(self._codec, self._cache, self._queries, self.dialect)
        self._preparer = Preparer(self._codec, self._cache, self.dialect.chain)
        self._storer = Storer(self._codec, self._cache, self._queries, self._reader, self._registry)
        fork_guard.renewed_in_child(self)

    def renew(self) -> None:
        """In a forked child: start with new parts, since the parent's may be in use by its
        threads."""
        self._assemble()

    def with_serde(self, serde: SerializerProtocol) -> Self:
        twin = super().with_serde(serde)
        twin._assemble()
        return twin

    @property
    def cache_limit(self) -> int:
        """About how many bytes of memory the saver's cache takes, besides the thread in use.

        It can be set at any time. A thread that is not cached is read again when a run needs it.
        """
        return self._cache_limit

    @cache_limit.setter
    def cache_limit(self, limit: int) -> None:
        self._cache_limit = self._cache.limit = limit

    @property
    def threads(self) -> SqlThreads:
        """Whole threads: listed, created, described, copied, pruned, swept, erased."""
        return SqlThreads(self.engine, self._sweeper, self._registry, self._reader, self._cache)

    @property
    def admin(self) -> DatabaseAdmin:
        """The whole database: dumped, loaded, verified, salvaged, sealed again, vacuumed."""
        return DatabaseAdmin(
            self.engine, self.threads, self._registry, self._metadata, self._reader
        )

    dump = method_of(_admin, DatabaseAdmin.dump)
    adump = method_of(_admin, DatabaseAdmin.adump)
    load = method_of(_admin, DatabaseAdmin.load)
    aload = method_of(_admin, DatabaseAdmin.aload)
    verify = method_of(_admin, DatabaseAdmin.verify)
    averify = method_of(_admin, DatabaseAdmin.averify)
    salvage = method_of(_admin, DatabaseAdmin.salvage)
    asalvage = method_of(_admin, DatabaseAdmin.asalvage)

    # -- a step in one go

    def prepare(self, step: StepCommit) -> Prepared:
        return self._preparer.step(step)

    def weight(self, step: Prepared) -> int:
        return step.weight

    def hold(self, thread_id: str, fence: Fence) -> None:
        fence.held(self.engine.run(self._hold(thread_id, fence), write=True))

    async def ahold(self, thread_id: str, fence: Fence) -> None:
        fence.held(await self.engine.arun(self._hold(thread_id, fence), write=True))

    def _hold(self, thread_id: str, fence: Fence) -> Work[str]:
        name = check_name("thread_id", thread_id)
        return partial(lock.hold, self._queries, self._registry, name, fence)

    def release(self, thread_id: str, fence: Fence, status: str) -> None:
        work = partial(lock.release, self._queries, thread_id, fence, status)
        self.engine.run(work, write=True)

    async def arelease(self, thread_id: str, fence: Fence, status: str) -> None:
        work = partial(lock.release, self._queries, thread_id, fence, status)
        await self.engine.arun(work, write=True)

    def head(self, thread_id: str) -> str | None:
        return self.engine.run(lambda: self._head(thread_id), write=False)

    async def ahead(self, thread_id: str) -> str | None:
        return await self.engine.arun(lambda: self._head(thread_id), write=False)

    def _head(self, thread_id: str) -> Operation[str | None]:
        rows = yield Query(self._queries.head_and_newer, (check_name("thread_id", thread_id),))
        return rows[0][0] if rows else None

    # -- the five methods

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = check_place(place_of(config))
        return self.engine.run(lambda: self._reader.one(place), write=False)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = check_place(place_of(config))
        return await self.engine.arun(BatchableRead(lambda: self._reader.one(place)), write=False)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        listing = Listing(self._reader, config, filter, before, limit)
        steps = GeneratorDriver(listing.pages())
        for work in steps:
            yield from listing.take()
            steps.answer = self.engine.run(work, write=False)
        yield from listing.take()

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        listing = Listing(self._reader, config, filter, before, limit)
        steps = GeneratorDriver(listing.pages())
        for work in steps:
            for found in listing.take():
                yield found
            steps.answer = await self.engine.arun(work, write=False)
        for found in listing.take():
            yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        step = self._put(config, checkpoint, metadata, new_versions)
        _raise(self.commit([step]))
        return step.place._replace(checkpoint_id=checkpoint["id"]).config()

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        step = self._put(config, checkpoint, metadata, new_versions)
        _raise(await self.acommit([step]))
        return step.place._replace(checkpoint_id=checkpoint["id"]).config()

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        _raise(self.commit([self._put_writes(config, writes, task_id, task_path)]))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        _raise(await self.acommit([self._put_writes(config, writes, task_id, task_path)]))

    # -- delta channels

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        place = check_place(place_of(config))
        return self.engine.run(lambda: history(self._reader, place, channels), write=False)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        place = check_place(place_of(config))
        return await self.engine.arun(lambda: history(self._reader, place, channels), write=False)

    # -- what sync and async methods do before they wait

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Prepared:
        place = place_of(config)
        values = checkpoint["channel_values"]
        versions = {**checkpoint["channel_versions"], **new_versions}
        parent = place.checkpoint_id
        base = parent and self._cache.manifest(place.thread_id, place.checkpoint_ns, parent, None)
        held = base.manifest.versions if base else {}
        changed = {
            channel: values.get(channel, MISSING)
            for channel, version in versions.items()
            # A foreign runtime may build on a parent that is not stored here: all values are new.
            if channel in new_versions or held.get(channel) != version
        }
        seen = {node: dict(versions) for node, versions in checkpoint["versions_seen"].items()}
        kept: Checkpoint = {**checkpoint, "channel_versions": versions, "versions_seen": seen}
        described = with_metadata_of(config, metadata)
        new = NewCheckpoint.of(kept, described, changed, values.copy)
        return self._preparer.checkpoint(place, new)

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Prepared:
        task = TaskWrites(task_id, task_path, "", writes)
        return self._preparer.writes(place_of(config), task)


def _raise(outcome: Sequence[Exception | None]) -> None:
    for error in outcome:
        if error is not None:
            raise error
