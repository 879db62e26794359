"""`saver.admin` on a database: dump and load, verify, salvage, re-encrypt."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost._db.engine import Transaction, Transactions, transaction
from milepost._internal.progress import report
from milepost.checkpoint._contract.faceted_saver import Admin
from milepost.checkpoint._contract.facets import sync_and_async
from milepost.checkpoint._contract.names import check_name
from milepost.checkpoint._contract.thread_admin import thread_id_of
from milepost.checkpoint._sql.admin import salvage as salvaging
from milepost.checkpoint._sql.admin import transfer
from milepost.checkpoint._sql.admin import verify as verifying
from milepost.checkpoint._sql.admin.reencrypt import Resealer

if TYPE_CHECKING:
    from milepost._db.engine import Engine
    from milepost._internal.progress import Progress
    from milepost.checkpoint._contract.thread_metadata import ThreadMetadata
    from milepost.checkpoint._contract.threads import Problem
    from milepost.checkpoint._sql.admin.salvage import Salvaged
    from milepost.checkpoint._sql.read.reader import CheckpointReader
    from milepost.checkpoint._sql.threads.registry import Registry
    from milepost.checkpoint._sql.threads.retention import SqlThreads
    from milepost.checkpoint.serde._rotation import Reencrypted


class DatabaseAdmin(Admin):
    """Operations on a whole database."""

    def __init__(
        self,
        engine: Engine,
        threads: SqlThreads,
        registry: Registry,
        metadata: ThreadMetadata,
        reader: CheckpointReader,
    ) -> None:
        super().__init__(engine)
        self._threads = threads
        self._registry = registry
        self._metadata = metadata
        self._reader = reader

    # -- streams: sync and async forms differ in how they wait, and in the kind of their iterables

    def dump(
        self, thread_ids: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> Iterator[str]:
        """Threads, or all of them, as lines of text with checksums; see `load`.

        One thread at a time is read, each in a transaction of its own.

        Args:
            thread_ids: Which threads; all of them by default.
            progress: Called with `(done, total)` after each thread.
        """
        yield transfer.FIRST_LINE
        dumped = 0
        threads = self.driver.drive(self._threads.thread_ids(thread_ids))
        for done, thread_id in enumerate(threads, 1):
            lines = self.driver.drive(self._dump_thread(thread_id))
            yield from lines
            dumped += bool(lines)
            del lines  # before the next thread is read
            report(progress, done, len(threads))
        yield transfer.last_line(dumped)

    async def adump(
        self, thread_ids: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> AsyncIterator[str]:
        """`dump`, for use on an event loop."""
        yield transfer.FIRST_LINE
        dumped = 0
        threads = await self.driver.adrive(self._threads.thread_ids(thread_ids))
        for done, thread_id in enumerate(threads, 1):
            lines = await self.driver.adrive(self._dump_thread(thread_id))
            for line in lines:
                yield line
            dumped += bool(lines)
            del lines  # before the next thread is read
            report(progress, done, len(threads))
        yield transfer.last_line(dumped)

    def load(
        self,
        lines: Iterable[str],
        *,
        rename: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> list[str]:
        """Store the threads of a stream that `dump` made, on any database; their ids.

        A thread is stored as a whole or not at all. What is sealed needs the same key here.

        Args:
            lines: What `dump` gave.
            rename: New ids of threads, by their old ones.
            progress: Called with `(done, None)` after each thread.
        """
        stream = transfer.LoadStream()
        for line in lines:
            self.driver.drive(self._load_line(stream, line, rename or {}, progress))
        return stream.finish()

    async def aload(
        self,
        lines: Iterable[str] | AsyncIterable[str],
        *,
        rename: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> list[str]:
        """`load`, for use on an event loop; takes what `adump` of another saver gives too."""
        stream = transfer.LoadStream()
        async for line in _each(lines):
            await self.driver.adrive(self._load_line(stream, line, rename or {}, progress))
        return stream.finish()

    def _dump_thread(self, thread_id: str) -> Transactions[list[str]]:
        return transaction(partial(transfer.dump_thread, self._reader.q, thread_id), write=False)

    def _load_line(
        self,
        stream: transfer.LoadStream,
        line: str,
        rename: Mapping[str, str],
        progress: Progress | None,
    ) -> Transactions[None]:
        """Store the thread that this line completes, if it does."""
        if (thread := stream.take(line)) is None:
            return
        source, rows = thread
        target = check_name("thread_id", rename.get(source, source))
        if target != source:
            rows = transfer.renamed(self._reader.codec, self._metadata, source, target, rows)
        yield Transaction(partial(transfer.load_thread, self._reader.q, target, rows))
        stream.loaded.append(target)
        report(progress, len(stream.loaded), None)

    # -- the rest

    def _reseal(
        self, thread_ids: Sequence[str] | None, progress: Progress | None
    ) -> Transactions[Reencrypted[Problem]]:
        threads = yield from self._threads.thread_ids(thread_ids)
        resealer = Resealer(self._reader, self._registry)
        return (yield from resealer.threads(threads, progress))

    def _salvage(self, thread_id: str) -> Transactions[list[Salvaged]]:
        """What can still be read of a damaged thread, newest first, and what is lost of it.

        It only reads. A checkpoint whose manifest is gone is left out; `verify` names it.

        Args:
            thread_id: Which thread.
        """
        work = partial(salvaging.thread, self._reader, thread_id_of(thread_id))
        return transaction(work, write=False)

    def _verify(
        self, thread_ids: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> Transactions[list[Problem]]:
        """Check lineage, chains, checksums and every value of threads, or of all; what is wrong.

        It only reads. Checkpoints that are not named can still be read and resumed from.

        Args:
            thread_ids: Which threads; all of them by default.
            progress: Called with `(done, total)` after each thread.
        """
        problems: list[Problem] = []
        threads = yield from self._threads.thread_ids(thread_ids)
        if thread_ids is None:
            problems += yield Transaction(partial(verifying.unlisted, self._reader), write=False)
            threads = [*threads, *(problem.thread_id for problem in problems)]
        for done, thread_id in enumerate(threads, 1):
            problems += yield Transaction(partial(self._registry.problems, thread_id), write=False)
            problems += yield Transaction(
                partial(verifying.thread, self._reader, thread_id), write=False
            )
            report(progress, done, len(threads))
        return problems

    salvage, asalvage = sync_and_async(_salvage)
    verify, averify = sync_and_async(_verify)


async def _each(lines: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[str]:
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield line
    else:
        for line in lines:
            yield line
