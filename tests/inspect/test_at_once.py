"""Forks and tags that are made at the same time, or beside a run."""

import threading

import pytest
from inspect_shop import at, builder, fill

from milepost.errors import ThreadConflict
from milepost.inspect import Database, Ref, fork, log, show, tag, tags, untag
from milepost.inspect._runs import _set


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def db(request, tmp_path):
    if request.param == "memory":
        from milepost.checkpoint.memory import InMemorySaver

        saver = InMemorySaver()
        fill(saver)
        yield Database.of(saver)
        return
    from milepost.inspect import open_database

    address = {
        "sqlite": lambda: str(tmp_path / "shop.db"),
        "postgres": lambda: request.getfixturevalue("uri"),
        "redis": lambda: request.getfixturevalue("redis_url"),
    }[request.param]()
    with open_database(address, write=True, create=True) as opened:
        fill(opened.saver)
        yield opened


def ids(db):
    return [entry.checkpoint_id for entry in log(db, "open")]


def test_a_fork_beside_a_run_is_refused_and_stores_nothing(db):
    started, go_on = threading.Event(), threading.Event()
    graph = builder()
    graph.add_node("wait", lambda _: (started.set(), go_on.wait(20)) and {"count": 9})
    graph.add_edge("ask", "wait")
    compiled = graph.compile(checkpointer=db.saver)
    from milepost.types import Command

    runner = threading.Thread(
        target=compiled.invoke,
        args=(Command(resume="yes"), at("open")),
        kwargs={"durability": "sync"},
    )
    runner.start()
    try:
        assert started.wait(20)
        before = ids(db)
        with pytest.raises(ThreadConflict):
            fork(db, Ref.parse("open@~1"), {"count": 5})
        with pytest.raises(ThreadConflict):
            fork(db, Ref.parse("open@~1"), {"count": 5}, graph=graph.compile())
        assert ids(db) == before
    finally:
        go_on.set()
        runner.join(20)
    assert show(db, Ref("open")).values["count"] == 9, "the run was not disturbed"


def test_of_two_forks_at_once_one_is_refused(db, monkeypatch):
    before = ids(db)
    refused = []

    def slow(*given):
        monkeypatch.undo()
        with pytest.raises(ThreadConflict) as caught:
            fork(db, Ref("open"), {"count": 2})
        refused.append(caught.value)
        return _set(*given)

    monkeypatch.setattr("milepost.inspect._runs._set", slow)
    made = fork(db, Ref("open"), {"count": 1})
    assert len(refused) == 1
    assert ids(db) == [made.at, *before]
    view = show(db, Ref("open"))
    assert (view.values["count"], view.status) == (1, "interrupted")


def test_a_fork_that_fails_leaves_the_thread_as_it_was(db):
    before = show(db, Ref("done"))
    with pytest.raises(LookupError):
        fork(db, Ref("done"), {"unknown": 1})
    assert show(db, Ref("done")) == before
    fork(db, Ref("done"), {"count": 1})
    assert show(db, Ref("done")).status == "idle"


def test_a_forked_thread_goes_on(db):
    from milepost.types import Command

    fork(db, Ref("open"), {"count": 40})
    graph = builder().compile(checkpointer=db.saver)
    graph.invoke(None, at("open"))
    assert graph.invoke(Command(resume="yes"), at("open"))["count"] == 41


def test_two_tags_at_once_are_both_kept(db, monkeypatch):
    from milepost.inspect import _refs

    store = _refs._store_tag

    def late(*given):
        monkeypatch.undo()
        tag(db, Ref.parse("done@~1"), "other")  # after the first has looked, before it stores
        tag(db, Ref.parse("done@~1"), "same")
        store(*given)

    monkeypatch.setattr(_refs, "_store_tag", late)
    tag(db, Ref("done"), "one")
    assert [one.name for one in tags(db, "done")] == ["one", "other", "same"]
    tag(db, Ref("done"), "same")  # of one name, the later one is the tag
    assert show(db, Ref.parse("done@same")).values["count"] == 50
    untag(db, "done", "other")
    assert [one.name for one in tags(db, "done")] == ["one", "same"]
    assert dict(show(db, Ref("done")).thread_metadata) == {}


def test_tags_of_an_older_version_are_known_moved_and_removed(db):
    older = {"a": [show(db, Ref("done")).checkpoint_id, ""], "b": ["1", ""]}
    db.saver.create_thread("done", {"milepost:tags": older})
    assert [(one.name, one.exists) for one in tags(db, "done")] == [("a", True), ("b", False)]
    tag(db, Ref.parse("done@~1"), "a")
    untag(db, "done", "b")
    assert [one.name for one in tags(db, "done")] == ["a"]
    assert show(db, Ref.parse("done@a")).values["count"] == 1
    assert dict(show(db, Ref("done")).thread_metadata) == {}
