"""Operations that take long tell how far they have come, all in the same way."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import START, StateGraph

THREADS = ["a", "b", "c"]


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


@pytest.fixture
def filled(saver):
    builder = StateGraph(State).add_node("node", lambda state: {"log": [1]})
    graph = builder.add_edge(START, "node").compile(checkpointer=saver)
    for thread_id in THREADS:
        graph.invoke({"log": []}, {"configurable": {"thread_id": thread_id}})
    return saver


@pytest.fixture
def told():
    calls = []
    calls_of = lambda done, total: calls.append((done, total))  # noqa: E731
    calls_of.calls = calls
    return calls_of


OF_THREE = [(1, 3), (2, 3), (3, 3)]
COUNTED = [(1, None), (2, None), (3, None)]


@pytest.mark.parametrize("options", [{}, {"dry_run": True}, {"strategy": "delete"}])
def test_prune_tells_each_thread_of_how_many(run, filled, told, options):
    run.saver(filled, "prune", THREADS, progress=told, **options)
    assert told.calls == OF_THREE


def test_erase_by_ids_tells_each_thread(run, filled, told):
    run.saver(filled, "erase", THREADS, progress=told, vacuum=False)
    assert told.calls == COUNTED


def test_erase_by_prefix_tells_each_thread(run, filled, told):
    for thread_id in THREADS:
        run.saver(filled, "copy_thread", thread_id, f"copy-{thread_id}")
    run.saver(filled, "erase", prefix="copy-", progress=told, vacuum=False)
    assert told.calls == COUNTED


@pytest.mark.parametrize("dry_run", [True, False])
def test_sweep_tells_each_thread(run, filled, told, dry_run):
    run.saver(filled, "sweep", ttl=-1.0, dry_run=dry_run, progress=told)
    assert told.calls == COUNTED


@pytest.fixture
def database(filled):
    if not hasattr(filled, "verify"):
        pytest.skip("not in memory")
    return filled


def test_verify_tells_each_thread_of_how_many(run, database, told):
    assert run.saver(database, "verify", progress=told) == []
    assert told.calls == OF_THREE


def test_dump_tells_each_thread_of_how_many(run, database, told):
    if run.colour == "sync":
        lines = list(database.dump(progress=told))
    else:
        lines = run._runner.run(_all(database.adump(progress=told)))
    assert len(lines) > len(THREADS)
    assert told.calls == OF_THREE


def test_load_tells_each_thread(run, database, told):
    lines = list(database.dump())
    with SqliteSaver.from_conn_string(":memory:") as target:
        assert run.saver(target, "load", lines, progress=told) == THREADS
    assert told.calls == COUNTED


async def _all(lines):
    return [line async for line in lines]
