"""A connection that is lost while a put is on its way: the outcome is reported as unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("psycopg")

import psycopg

from milepost._db.postgres import transaction as pg_transaction
from milepost.errors import OutcomeUnknownError
from milepost.store.postgres import PostgresStore

SPACE = ("users",)


@pytest.fixture
def lose_the_answer(monkeypatch: pytest.MonkeyPatch, postgres: str) -> Callable[[str], None]:
    """The next transaction that contains a text is committed, and its answer is lost."""
    exchange = pg_transaction.exchange
    wanted: list[str] = []

    def lossy(connection: Any, asks: Any, **options: Any) -> Any:
        results = yield from exchange(connection, asks, **options)
        if wanted and any(wanted[0] in ask[0] for ask in asks):
            wanted.clear()
            connection.close()
            raise psycopg.OperationalError("the connection is lost")
        return results

    monkeypatch.setattr(pg_transaction, "exchange", lossy)
    return wanted.append


def test_a_versioned_put_whose_answer_is_lost_is_not_called_a_conflict(postgres, lose_the_answer):
    with PostgresStore.from_conn_string(postgres) as store:
        store.put(SPACE, "k", {"n": 1})
        version = store.get(SPACE, "k").version
        lose_the_answer("COMMIT")
        with pytest.raises(OutcomeUnknownError, match="it is unknown whether it was stored"):
            store.put(SPACE, "k", {"n": 2}, if_version=version)
        assert store.get(SPACE, "k").value == {"n": 2}


def test_a_plain_put_whose_answer_is_lost_is_repeated(postgres, lose_the_answer):
    with PostgresStore.from_conn_string(postgres) as store:
        store.put(SPACE, "k", {"n": 1})
        lose_the_answer("INSERT INTO store")
        store.put(SPACE, "k", {"n": 2})
        assert store.get(SPACE, "k").value == {"n": 2}


def test_a_versioned_put_on_a_connection_that_died_before_is_repeated(postgres):
    with PostgresStore.from_conn_string(postgres) as store:
        store.put(SPACE, "k", {"n": 1})
        version = store.get(SPACE, "k").version
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", (store.conn.info.backend_pid,))
        store.put(SPACE, "k", {"n": 2}, if_version=version)
        assert store.get(SPACE, "k").value == {"n": 2}
