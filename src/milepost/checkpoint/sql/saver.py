"""The part of a saver that all databases share, in both colours.

A method makes an operation and hands it to the engine; the sync and async methods differ in
nothing but how they wait.
"""

from __future__ import annotations

from binascii import b2a_base64
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from milepost import forking
from milepost.checkpoint.codec import Codec
from milepost.checkpoint.commit import Fence, NewCheckpoint, StepCommit, StepSaver, TaskWrites
from milepost.checkpoint.names import check_name, check_place
from milepost.checkpoint.records import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    place_of,
)
from milepost.checkpoint.sql import leases
from milepost.checkpoint.sql.listing import Listing
from milepost.checkpoint.sql.preparing import Preparer
from milepost.checkpoint.sql.queries import queries_for
from milepost.checkpoint.sql.reading import Reader
from milepost.checkpoint.sql.registry import Registry
from milepost.checkpoint.sql.remembered import Memory
from milepost.checkpoint.sql.removing import Remover
from milepost.checkpoint.sql.rows import Prepared
from milepost.checkpoint.sql.storing import Storer
from milepost.checkpoint.versions import counter_in, counter_text
from milepost.ids import getrandbits
from milepost.sql.committing import Committer, Outcome
from milepost.sql.operations import Operation, Query, Short, Work
from milepost.stepper import Stepper
from milepost.types import MISSING, RunnableConfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from milepost.checkpoint.serde.base import SerializerProtocol
    from milepost.sql.dialect import Dialect
    from milepost.sql.engine import Engine


class SqlSaver(StepSaver[Prepared]):
    """Keeps threads in a database."""

    dialect: ClassVar[Dialect]
    engine: Engine
    _last_version: tuple[str | None, int] = (None, 0)

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._queries = queries_for(self.dialect)
        self._registry = Registry(self.dialect, self._queries)
        self._assemble()

    def _assemble(self) -> None:
        """Make the parts that work with the serializer."""
        self._codec = Codec(self.serde, keeps=True)
        self._memory = Memory()
        self._reader = Reader(self._codec, self._memory, self._queries, self.dialect)
        self._preparer = Preparer(self._codec, self._memory, self.dialect.chain)
        self._storer = Storer(self._codec, self._memory, self._queries, self._reader)
        self._committer = Committer(self._storer)
        self._remover = Remover(self._reader)
        forking.renewed_in_child(self)

    def renew(self) -> None:
        """In a forked child: what the parent's threads had in hand is theirs."""
        self._assemble()

    def with_serde(self, serde: SerializerProtocol) -> Self:
        twin = super().with_serde(serde)
        twin._assemble()
        return twin

    # -- a step in one go

    def prepare(self, step: StepCommit) -> Prepared:
        return self._preparer.step(step)

    def weight(self, step: Prepared) -> int:
        return step.weight

    def commit(self, steps: Sequence[Prepared]) -> Outcome:
        return self.engine.commit(self._committer, self._committer.add(steps))

    async def acommit(self, steps: Sequence[Prepared]) -> Outcome:
        return await self.engine.acommit(self._committer, self._committer.add(steps))

    def hold(self, thread_id: str, fence: Fence) -> None:
        fence.held(self.engine.run(self._hold(thread_id, fence), write=True))

    async def ahold(self, thread_id: str, fence: Fence) -> None:
        fence.held(await self.engine.arun(self._hold(thread_id, fence), write=True))

    def _hold(self, thread_id: str, fence: Fence) -> Work[str]:
        return partial(leases.hold, self._queries, check_name("thread_id", thread_id), fence)

    def release(self, thread_id: str, fence: Fence, status: str) -> None:
        work = partial(leases.release, self._queries, thread_id, fence, status)
        self.engine.run(work, write=True)

    async def arelease(self, thread_id: str, fence: Fence, status: str) -> None:
        work = partial(leases.release, self._queries, thread_id, fence, status)
        await self.engine.arun(work, write=True)

    def head(self, thread_id: str) -> str | None:
        return self.engine.run(lambda: self._head(thread_id), write=False)

    async def ahead(self, thread_id: str) -> str | None:
        return await self.engine.arun(lambda: self._head(thread_id), write=False)

    def _head(self, thread_id: str) -> Operation[str | None]:
        rows = yield Query(self._queries.head, (check_name("thread_id", thread_id),))
        return rows[0][0] if rows else None

    # -- the five methods

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = check_place(place_of(config))
        return self.engine.run(lambda: self._reader.one(place), write=False)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = check_place(place_of(config))
        return await self.engine.arun(Short(lambda: self._reader.one(place)), write=False)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        listing = self._listing(config, filter, before, limit)
        steps = Stepper(listing.pages())
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
        listing = self._listing(config, filter, before, limit)
        steps = Stepper(listing.pages())
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

    def delete_thread(self, thread_id: str) -> None:
        thread_id = check_name("thread_id", str(thread_id))
        self.engine.run(lambda: self._remover.thread(thread_id), write=True)
        self._memory.forget(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        thread_id = check_name("thread_id", str(thread_id))
        await self.engine.arun(lambda: self._remover.thread(thread_id), write=True)
        self._memory.forget(thread_id)

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002
        """A counter that orders versions, and random digits that keep branches apart."""
        known, count = self._last_version
        if current is not known:  # a run asks for the one after the one that it got last
            count = counter_in(current)
        text = b2a_base64(getrandbits(48).to_bytes(6, "big"), newline=False).decode()
        version = f"{counter_text(count + 1)}.{text}"
        self._last_version = (version, count + 1)
        return version

    # -- what both colours do before they wait

    def _listing(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Listing:
        end = get_checkpoint_id(before) if before else None
        return Listing(self._reader, config, filter, end, limit)

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
        base = parent and self._memory.frame(place.thread_id, place.checkpoint_ns, parent, None)
        held = base.frame.versions if base else {}
        changed = {
            channel: values.get(channel, MISSING)
            for channel, version in versions.items()
            # A foreign runtime may build on what was never stored here: then all of it is new.
            if channel in new_versions or held.get(channel) != version
        }
        seen = {node: dict(versions) for node, versions in checkpoint["versions_seen"].items()}
        kept: Checkpoint = {**checkpoint, "channel_versions": versions, "versions_seen": seen}
        new = NewCheckpoint(kept, metadata, changed, values.copy)
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
