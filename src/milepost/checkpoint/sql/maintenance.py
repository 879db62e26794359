"""The registry of threads, whole databases, delta channels: in both colours."""

from __future__ import annotations

from collections.abc import AsyncIterable
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.records import DeltaChannelHistory, place_of
from milepost.checkpoint.sql import salvaging, transfer, verifying
from milepost.checkpoint.sql.delta import history
from milepost.checkpoint.sql.names import check_place
from milepost.checkpoint.sql.registry import ThreadInfo, Wanted
from milepost.checkpoint.sql.resealing import Resealer
from milepost.checkpoint.sql.retention import RetainingSaver, thread_id_of
from milepost.sql.engine import Program, Transaction, adrive, drive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from milepost.checkpoint.serde.rotation import Progress, Reencrypted
    from milepost.checkpoint.sql.salvaging import Salvaged
    from milepost.checkpoint.sql.verifying import Problem
    from milepost.sql.operations import Work
    from milepost.types import RunnableConfig

_STRATEGIES = ("keep_latest", "delete")


class MaintainedSaver(RetainingSaver):
    """Keeps threads in a database, and helps to keep house there."""

    # -- the registry

    def list_threads(
        self,
        *,
        metadata: Mapping[str, Any] | None = None,
        status: str | None = None,
        prefix: str | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[ThreadInfo]:
        """A page of threads in the order of their ids; `after` is the last id of the page before.

        `metadata` is compared with what `set_thread_metadata` has stored; of `tags` it must have
        those that are given. The status is idle, interrupted, error, running or stale.
        """
        wanted = Wanted(metadata or {}, status, prefix, updated_after, updated_before, after, limit)
        return self.engine.run(lambda: self._registry.page(wanted), write=False)

    async def alist_threads(
        self,
        *,
        metadata: Mapping[str, Any] | None = None,
        status: str | None = None,
        prefix: str | None = None,
        updated_after: float | None = None,
        updated_before: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[ThreadInfo]:
        """`list_threads`, for use on an event loop."""
        wanted = Wanted(metadata or {}, status, prefix, updated_after, updated_before, after, limit)
        return await self.engine.arun(lambda: self._registry.page(wanted), write=False)

    def get_thread(self, thread_id: str) -> ThreadInfo | None:
        """What the registry knows of a thread, with counts and bytes."""
        thread_id = thread_id_of(thread_id)
        return self.engine.run(lambda: self._registry.one(thread_id), write=False)

    async def aget_thread(self, thread_id: str) -> ThreadInfo | None:
        """`get_thread`, for use on an event loop."""
        thread_id = thread_id_of(thread_id)
        return await self.engine.arun(lambda: self._registry.one(thread_id), write=False)

    def set_thread_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> None:
        """Say what a thread is about: `owner`, `tags`, and anything else that is plain JSON."""
        thread_id = thread_id_of(thread_id)
        self.engine.run(lambda: self._registry.describe(thread_id, metadata), write=True)

    async def aset_thread_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> None:
        """`set_thread_metadata`, for use on an event loop."""
        thread_id = thread_id_of(thread_id)
        await self.engine.arun(lambda: self._registry.describe(thread_id, metadata), write=True)

    def _thread_ids(self, wanted: Sequence[str] | None) -> Program[list[str]]:
        if wanted is not None:
            return [thread_id_of(id) for id in wanted]
        found: list[str] = []
        while True:
            page: list[ThreadInfo] = yield Transaction(
                partial(self._registry.page, Wanted(after=found[-1] if found else None)),
                write=False,
            )
            found += [info.thread_id for info in page]
            if len(page) < Wanted().limit:
                return found

    # -- whole databases

    def dump(self, thread_ids: Sequence[str] | None = None) -> Iterator[str]:
        """Threads, or all of them, as lines of text with checksums; see `load`.

        One thread at a time is read, each in a transaction of its own.
        """
        stream = transfer.Outgoing()
        yield stream.begin()
        for thread_id in drive(self.engine, self._thread_ids(thread_ids)):
            yield from stream.add(self.engine.run(self._dumping(thread_id), write=False))
        yield stream.end()

    async def adump(self, thread_ids: Sequence[str] | None = None) -> AsyncIterator[str]:
        """`dump`, for use on an event loop."""
        stream = transfer.Outgoing()
        yield stream.begin()
        for thread_id in await adrive(self.engine, self._thread_ids(thread_ids)):
            lines = await self.engine.arun(self._dumping(thread_id), write=False)
            for line in stream.add(lines):
                yield line
        yield stream.end()

    def load(self, lines: Iterable[str]) -> list[str]:
        """Store the threads of a stream that `dump` made, on any database; their ids.

        A thread is stored as a whole or not at all. What is sealed needs the same key here.
        """
        stream = transfer.Incoming()
        loaded = []
        for line in lines:
            if (thread := stream.take(line)) is not None:
                self.engine.run(self._loading(*thread), write=True)
                loaded.append(thread[0])
        stream.finish()
        return loaded

    async def aload(self, lines: Iterable[str] | AsyncIterable[str]) -> list[str]:
        """`load`, for use on an event loop; takes what `adump` of another saver gives too."""
        stream = transfer.Incoming()
        loaded = []
        async for line in _each(lines):
            if (thread := stream.take(line)) is not None:
                await self.engine.arun(self._loading(*thread), write=True)
                loaded.append(thread[0])
        stream.finish()
        return loaded

    def _dumping(self, thread_id: str) -> Work[list[str]]:
        return partial(transfer.dump_thread, self._queries, thread_id)

    def _loading(self, thread_id: str, rows: transfer.Rows) -> Work[None]:
        return partial(transfer.load_thread, self._queries, thread_id, rows)

    def verify(self, thread_ids: Sequence[str] | None = None) -> list[Problem]:
        """Check lineage, chains, checksums and every value of threads, or of all; what is wrong.

        It only reads. Checkpoints that are not named can still be read and resumed from.
        """
        return drive(self.engine, self._verify(thread_ids))

    async def averify(self, thread_ids: Sequence[str] | None = None) -> list[Problem]:
        """`verify`, for use on an event loop."""
        return await adrive(self.engine, self._verify(thread_ids))

    def reencrypt(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        progress: Progress[Problem] | None = None,
    ) -> Reencrypted[Problem]:
        """Seal every row of threads, or of all, with the newest key; what was done.

        Others may go on working: a few rows at a time are locked. Rows that have the newest key
        are skipped, so after an interruption call it again. When it finds nothing to do, every
        older key can be dropped. With `allow_plaintext` it seals what is stored in the clear.
        `progress` is called after each transaction with what was done so far.
        """
        return drive(self.engine, self._reencrypt(thread_ids, progress))

    async def areencrypt(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        progress: Progress[Problem] | None = None,
    ) -> Reencrypted[Problem]:
        """`reencrypt`, for use on an event loop."""
        return await adrive(self.engine, self._reencrypt(thread_ids, progress))

    def _reencrypt(
        self,
        thread_ids: Sequence[str] | None,
        progress: Progress[Problem] | None,
    ) -> Program[Reencrypted[Problem]]:
        threads = yield from self._thread_ids(thread_ids)
        resealer = Resealer(self._codec, self.dialect, self._queries.lock_thread)
        return (yield from resealer.threads(threads, progress))

    def salvage(self, thread_id: str) -> list[Salvaged]:
        """What can still be read of a damaged thread, newest first, and what is lost of it.

        It only reads. A checkpoint whose frame is gone is left out; `verify` names it.
        """
        return self.engine.run(self._salvage(thread_id), write=False)

    async def asalvage(self, thread_id: str) -> list[Salvaged]:
        """`salvage`, for use on an event loop."""
        return await self.engine.arun(self._salvage(thread_id), write=False)

    def _salvage(self, thread_id: str) -> Work[list[Salvaged]]:
        return partial(salvaging.thread, self._reader, thread_id_of(thread_id))

    def _verify(self, thread_ids: Sequence[str] | None) -> Program[list[Problem]]:
        problems: list[Problem] = []
        for thread_id in (yield from self._thread_ids(thread_ids)):
            problems += yield Transaction(
                partial(verifying.thread, self._reader, thread_id), write=False
            )
        return problems

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


async def _each(lines: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield line
    else:
        for line in lines:
            yield line
