"""Whole databases: moved, checked, salvaged, sealed anew. And what delta channels are made of."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.checkpoint.housekeeping import thread_id_of
from milepost.checkpoint.names import check_name, check_place
from milepost.checkpoint.records import DeltaChannelHistory, place_of
from milepost.checkpoint.sql import salvaging, transfer, verifying
from milepost.checkpoint.sql.delta import history
from milepost.checkpoint.sql.resealing import Resealer
from milepost.checkpoint.sql.retention import RetainingSaver
from milepost.sql.engine import Program, Transaction, adrive, drive

if TYPE_CHECKING:
    from milepost.checkpoint.serde.rotation import Progress, Reencrypted
    from milepost.checkpoint.sql.salvaging import Salvaged
    from milepost.checkpoint.threads import Problem
    from milepost.sql.operations import Work
    from milepost.types import RunnableConfig


class MaintainedSaver(RetainingSaver):
    """Keeps threads in a database, and helps to keep house there."""

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

    def load(self, lines: Iterable[str], *, rename: Mapping[str, str] | None = None) -> list[str]:
        """Store the threads of a stream that `dump` made, on any database; their ids.

        A thread is stored as a whole or not at all; one that `rename` has a new id for is stored
        under that. What is sealed needs the same key here.
        """
        stream = transfer.Incoming()
        loaded = []
        for line in lines:
            if (thread := stream.take(line)) is not None:
                thread_id, rows = self._renamed(rename or {}, *thread)
                self.engine.run(self._loading(thread_id, rows), write=True)
                loaded.append(thread_id)
        stream.finish()
        return loaded

    async def aload(
        self,
        lines: Iterable[str] | AsyncIterable[str],
        *,
        rename: Mapping[str, str] | None = None,
    ) -> list[str]:
        """`load`, for use on an event loop; takes what `adump` of another saver gives too."""
        stream = transfer.Incoming()
        loaded = []
        async for line in _each(lines):
            if (thread := stream.take(line)) is not None:
                thread_id, rows = self._renamed(rename or {}, *thread)
                await self.engine.arun(self._loading(thread_id, rows), write=True)
                loaded.append(thread_id)
        stream.finish()
        return loaded

    def _renamed(
        self, rename: Mapping[str, str], source: str, rows: transfer.Rows
    ) -> tuple[str, transfer.Rows]:
        target = check_name("thread_id", rename.get(source, source))
        if target == source:
            return source, rows
        return target, transfer.renamed(self._codec, source, target, rows)

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
        threads = yield from self._thread_ids(thread_ids)
        if thread_ids is None:
            problems += yield Transaction(partial(verifying.unlisted, self._reader), write=False)
            threads = [*threads, *(problem.thread_id for problem in problems)]
        for thread_id in threads:
            problems += yield Transaction(partial(self._registry.problems, thread_id), write=False)
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
