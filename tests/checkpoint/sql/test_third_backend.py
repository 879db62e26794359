"""A backend takes a few hundred lines: one keeps the whole contract, and is as short as that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import third_backend
from third_backend import STATEMENTS, THIRD, ThirdSaver

import milepost
from graphs import line, thread
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing
from milepost.graph import START, MessagesState, StateGraph
from milepost.testing import saver_tests


def third(tmp_path: Path) -> ThirdSaver:
    return ThirdSaver(tmp_path / "threads.db")


GROUPS = None if os.environ.get("MILEPOST_LONG") else ("put", "get_tuple", "list", "put_writes")
"""The groups of clauses; without the long form those that every saver needs."""

test_it_keeps_every_clause_of_the_contract = saver_tests(third, persistent=True, groups=GROUPS)


def test_its_dialect_is_its_own(tmp_path: Path) -> None:
    """Nothing in the package knows its name, its placeholders or its statements."""
    package = Path(milepost.__file__).parent
    assert not [file for file in package.rglob("*.py") if f'"{THIRD.name}"' in file.read_text()]
    queries = vars(third(tmp_path)._queries).values()
    assert any("%s" in query for query in queries)
    assert not any("?" in query for query in queries)
    assert third(tmp_path)._queries.add_blob == STATEMENTS.add_blob.replace("?", "%s")


def test_a_graph_runs_on_it(tmp_path: Path) -> None:
    builder = StateGraph(MessagesState).add_node("a", lambda state: {"messages": ["b" * 2000]})
    saver = third(tmp_path)
    graph = builder.add_edge(START, "a").compile(checkpointer=saver)
    config = thread("t")
    graph.invoke({"messages": ["a"]}, config)
    graph = builder.compile(checkpointer=third(tmp_path))
    said = [message.content for message in graph.get_state(config).values["messages"]]
    assert said == ["a", "b" * 2000]
    assert saver.verify() == []


def test_its_rows_are_sealed_again_with_a_new_key(tmp_path: Path) -> None:
    pytest.importorskip("Crypto")
    ring = AesKeyRing({"old": b"o" * 16})
    saver = ThirdSaver(tmp_path / "sealed.db", serde=EncryptedSerializer(ring))
    graph = line("a", "b").compile(checkpointer=saver)
    graph.invoke({"log": ["x" * 2000]}, thread("t"))
    expected = graph.get_state(thread("t")).values
    ring.add(b"n" * 16, id="new")
    assert saver.reencrypt().resealed > 5
    ring.drop("old")
    fresh = ThirdSaver(tmp_path / "sealed.db", serde=EncryptedSerializer(ring))
    assert line("a", "b").compile(checkpointer=fresh).get_state(thread("t")).values == expected


def test_a_third_backend_takes_less_than_400_lines():
    assert len(Path(third_backend.__file__).read_text().splitlines()) < 400
