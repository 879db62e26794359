"""What a single put costs on PostgreSQL: what is sent, and how far it is from the call to that."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import milepost

pytest.importorskip("psycopg")

from psycopg.errors import NumericValueOutOfRange

from milepost._db.postgres import wire
from milepost.errors import SaverError
from milepost.store.base import PutOp
from milepost.store.postgres import PostgresStore

SPACE = ("users", "ann")
OURS = str(Path(milepost.__file__).parent)


@pytest.fixture
def used(postgres: str) -> Iterator[PostgresStore]:
    """A store that has put something before, so that everything is made and prepared."""
    with PostgresStore.from_conn_string(postgres) as store:
        store.put(SPACE, "k", {"n": 0})
        yield store


def sent(store: PostgresStore, file: Path, act: Callable[[], Any]) -> list[str]:
    """The messages that go to the server meanwhile."""
    pgconn = store.conn.pgconn
    with file.open("w+") as trace:
        pgconn.trace(trace.fileno())
        act()
        pgconn.untrace()
    lines = [line.split("\t") for line in file.read_text().splitlines()]
    return [line[-2] if line[-1][:1] == " " else line[-1] for line in lines if "F" in line]


def called(act: Callable[[], Any]) -> list[str]:
    """The functions of ours that run meanwhile; a generator counts each time it goes on."""
    names: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS + os.sep):
            names.append(code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return names


@pytest.mark.skipif(sys.platform != "linux", reason="libpq's trace needs a file descriptor")
@pytest.mark.parametrize("settings", [{}, {"ttl": 5}, {"index": False}])
def test_a_put_sends_one_prepared_statement_and_nothing_around_it(used, tmp_path, settings):
    used.put(SPACE, "k", {"n": 1}, **settings)
    messages = sent(used, tmp_path / "trace", lambda: used.put(SPACE, "k", {"n": 2}, **settings))
    assert messages == ["Bind", "Describe", "Execute", "Sync"]
    assert used.get(SPACE, "k").value == {"n": 2}


def test_a_put_is_not_driven_as_a_program(used):
    # Between two round trips a processor has forgotten its way: each function costs several times
    # what it does in a loop. There were 75 of ours when a put was slower than LangGraph's.
    names = called(lambda: used.put(SPACE, "k", {"n": 1}))
    assert "exchange" in names
    assert not {"perform", "execute", "_drive"} & set(names)
    assert len(names) <= 54, names


def test_what_is_more_than_one_put_is(used):
    for act in (
        lambda: used.batch([PutOp(SPACE, "a", {}), PutOp(SPACE, "b", {})]),
        lambda: used.delete(SPACE, "a"),
        lambda: used.put(SPACE, "c", {}, if_version=0),
    ):
        assert "perform" in called(act)
    assert [item.key for item in used.search(SPACE, order="key")] == ["b", "c", "k"]


def test_a_put_that_the_server_refuses_leaves_a_connection_that_works(used, monkeypatch):
    monkeypatch.setattr(used._core.stamps, "next", lambda: 2**63 - 1)
    used.put(SPACE, "k", {"n": 1})
    with pytest.raises(SaverError, match="out of range") as refused:
        used.put(SPACE, "k", {"n": 2})  # its version would be one more
    assert isinstance(refused.value.__cause__, NumericValueOutOfRange)
    assert used.get(SPACE, "k").value == {"n": 1}


def test_a_put_whose_statement_was_forgotten_is_prepared_anew(used):
    used.conn.execute("DEALLOCATE ALL")
    used.put(SPACE, "k", {"n": 1})
    assert used.get(SPACE, "k").value == {"n": 1}
    assert len(wire._prepared[used.conn]) == 2


def test_in_a_pipeline_of_the_users_a_put_takes_part_in_it(used):
    with used.conn.pipeline():
        used.put(SPACE, "k", {"n": 1})
        assert used.get(SPACE, "k").value == {"n": 1}
