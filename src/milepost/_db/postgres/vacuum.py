"""Rewrites tables of PostgreSQL without the rows that were removed, and sees whether it was done.

VACUUM FULL reports success also where it had to keep rows, since a transaction that began before
they were removed might still see them; and where it did nothing at all, for want of rights. But
what it leaves out is everything that was removed before a certain transaction, and it notes which
one that was: as the `relfrozenxid` of the table.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from milepost._db.failures import STILL_THERE
from milepost._db.operations import Batch, Execute, Operation, Query
from milepost.errors import NotErasedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost._db.operations import Work
    from milepost._db.postgres.engine import Begin, Settings

LOCK_TIMEOUT: Final = 10.0
"""Seconds for which other transactions may hold the table."""

_NEXT: Final = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
"""Whatever was removed so far, was removed before this transaction."""
_REWRITTEN: Final = """
    SELECT age(relfrozenxid) <= age(%s::xid), pg_has_role(relowner, 'USAGE')
    FROM pg_class WHERE oid = to_regclass(%s)"""


def vacuuming(settings: Settings) -> Iterator[tuple[Work[None], Begin]]:
    """What to carry out, one after the other, and how each begins."""
    for table in settings.tables:
        yield partial(_free, table), settings.begin_write
        yield partial(_rewritten, table), ()


def _free(table: str) -> Operation[None]:
    """Wait until the table is unused; VACUUM would wait for ever, and others behind it."""
    bounded = Execute(f"SET LOCAL lock_timeout TO {LOCK_TIMEOUT * 1000:.0f}")
    yield Batch((bounded, Execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")), last=True)


def _rewritten(table: str) -> Operation[None]:
    [(bound,)] = yield Query(_NEXT)
    until = time.monotonic() + LOCK_TIMEOUT
    pause = 0.05
    while True:
        yield Execute(f"VACUUM FULL {table}")
        [(done, is_owner)] = yield Query(_REWRITTEN, (str(bound % 2**32), table))
        if done:
            return
        if not is_owner:
            raise NotErasedError(
                f"{STILL_THERE} PostgreSQL has not rewritten the table {table}, which is not this "
                "role's. Call vacuum(), or erase() again, as its owner."
            )
        if time.monotonic() >= until:
            raise NotErasedError(
                f"{STILL_THERE} PostgreSQL kept rows of {table}, since a transaction that began "
                "before they were removed could still see them. End it (pg_stat_activity has its "
                "backend_xmin; also look at pg_prepared_xacts and pg_replication_slots), then call "
                "vacuum(), or erase() again."
            )
        yield Query("SELECT pg_sleep(%s)", (pause,))
        pause = min(2 * pause, 1.0)
