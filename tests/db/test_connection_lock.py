"""The lock that engines on one connection share."""

from __future__ import annotations

from milepost._db.connections import lock_of


class Connection:
    """Stands for a connection: only its identity counts."""


def test_one_connection_has_one_lock():
    connection = Connection()
    assert lock_of(connection) is (lock := lock_of(connection))
    assert lock is not lock_of(Connection())


def test_a_lock_that_has_moved_to_another_connection_is_found_there_alone():
    former, opened_again = Connection(), Connection()
    lock = lock_of(former)
    lock.connect(opened_again)
    assert lock_of(opened_again) is lock
    assert lock_of(former) is not lock
