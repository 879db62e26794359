"""The documented methods of a saver that its facets answer."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from milepost._db.engine import Transactions, Vacuum
from milepost.checkpoint._contract.facets import TransactionDriver, method_of, sync_and_async
from milepost.checkpoint._contract.thread_admin import Threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from milepost._db.engine import Engine
    from milepost._internal.progress import Progress
    from milepost.checkpoint._contract.threads import Problem
    from milepost.checkpoint.serde._rotation import Reencrypted


class Admin:
    """`saver.admin`: operations on everything that a saver has stored."""

    def __init__(self, engine: Engine | None) -> None:
        self.driver = TransactionDriver(engine)

    @abstractmethod
    def _reseal(
        self, thread_ids: Sequence[str] | None, progress: Progress | None
    ) -> Transactions[Reencrypted[Problem]]:
        """Seal everything of the given threads, or of all threads, with the newest key."""

    def _reencrypt(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Transactions[Reencrypted[Problem]]:
        """Seal the given threads, or all threads, with the newest key; report what was done.

        Runs may go on meanwhile, since only a few rows at a time are locked. Rows that have the
        newest key are skipped, so after an interruption call it again. When a call finds no row to
        seal, every older key can be dropped. With `allow_plaintext`, plaintext rows are sealed too.

        Args:
            thread_ids: Which threads; all by default.
            progress: Called with numbers of threads, done and in total, after each transaction or,
                in memory, after each thread.

        Examples:
            >>> from milepost.checkpoint.serde.encrypted import AesKeyRing, EncryptedSerializer
            >>> serde = EncryptedSerializer(AesKeyRing([b"0" * 32]), allow_plaintext=True)
            >>> sealed = saver.with_serde(serde)
            >>> sealed.reencrypt().refused
            []
        """
        return (yield from self._reseal(thread_ids, progress))

    def _vacuum(self) -> Transactions[None]:
        """Give the space of removed rows back to the system; takes a while on a large database.

        Examples:
            >>> saver.vacuum()
        """
        yield Vacuum()

    reencrypt, areencrypt = sync_and_async(_reencrypt)
    vacuum, avacuum = sync_and_async(_vacuum)


def _threads(saver: FacetedSaver) -> Threads:
    return saver.threads


def _admin(saver: FacetedSaver) -> Admin:
    return saver.admin


class FacetedSaver:
    """A saver with the facets `threads` and `admin`, besides loading and storing."""

    @property
    @abstractmethod
    def threads(self) -> Threads:
        """Whole threads: listed, created, described, copied, pruned, swept, erased."""

    @property
    @abstractmethod
    def admin(self) -> Admin:
        """All that is stored: sealed with another key, vacuumed."""

    list_threads = method_of(_threads, Threads.list)
    alist_threads = method_of(_threads, Threads.alist)
    get_thread = method_of(_threads, Threads.get)
    aget_thread = method_of(_threads, Threads.aget)
    create_thread = method_of(_threads, Threads.create)
    acreate_thread = method_of(_threads, Threads.acreate)
    set_thread_metadata = method_of(_threads, Threads.set_metadata)
    aset_thread_metadata = method_of(_threads, Threads.aset_metadata)
    copy_thread = method_of(_threads, Threads.copy)
    acopy_thread = method_of(_threads, Threads.acopy)
    prune = method_of(_threads, Threads.prune)
    aprune = method_of(_threads, Threads.aprune)
    delete_thread = method_of(_threads, Threads.delete)
    adelete_thread = method_of(_threads, Threads.adelete)
    delete_for_runs = method_of(_threads, Threads.delete_for_runs)
    adelete_for_runs = method_of(_threads, Threads.adelete_for_runs)
    erase = method_of(_threads, Threads.erase)
    aerase = method_of(_threads, Threads.aerase)
    sweep = method_of(_threads, Threads.sweep)
    asweep = method_of(_threads, Threads.asweep)
    start_sweeper = method_of(_threads, Threads.start_sweeper)
    stop_sweeper = method_of(_threads, Threads.stop_sweeper)
    reencrypt = method_of(_admin, Admin.reencrypt)
    areencrypt = method_of(_admin, Admin.areencrypt)
    vacuum = method_of(_admin, Admin.vacuum)
    avacuum = method_of(_admin, Admin.avacuum)
