"""Rows that somebody has deleted, emptied or put back to an older copy are missed by who reads."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from graphs import line, thread
from milepost.channels import DeltaChannel
from milepost.checkpoint._sql.read.listing import PAGE
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.serde.keyring import AesKeyRing
from milepost.errors import BrokenChainError, DamagedRowError, SerdeError
from milepost.graph import START, StateGraph
from milepost.types import Command, interrupt

CONFIG = thread("t")


class State(TypedDict, total=False):
    log: Annotated[list[Any], lambda a, b: a + b]


def ring(**keys: bytes) -> EncryptedSerializer:
    return EncryptedSerializer(AesKeyRing(keys))


@pytest.fixture(params=["sqlite", "postgres", "encrypted"])
def saver(request: pytest.FixtureRequest) -> Any:
    if request.param != "encrypted":
        return request.getfixturevalue(request.param)
    return request.getfixturevalue("sqlite").with_serde(ring(old=b"o" * 32))


def without_cache(saver: Any) -> Any:
    """A saver on the same database that remembers nothing."""
    return saver.with_serde(saver.serde)


def change(saver: Any, sql: str, *values: Any) -> int:
    """Change rows by hand; how many they were."""
    if "Postgres" in type(saver).__name__:
        sql = sql.replace("?", "%s")
    return saver.conn.execute(sql, values).rowcount


def rows(saver: Any, sql: str, *values: Any) -> list[Any]:
    if "Postgres" in type(saver).__name__:
        sql = sql.replace("?", "%s")
    return saver.conn.execute(sql, values).fetchall()


def questions(saver: Any, ran: list[str]) -> Any:
    """A graph of two tasks at once: one is done, the other one asks."""

    def works(_: State) -> Any:
        ran.append("works")
        return {"log": ["done"]}

    def asks(_: State) -> Any:
        return {"log": [interrupt("first?"), interrupt("second?")]}

    builder = StateGraph(State).add_node("works", works).add_node("asks", asks)
    builder.add_edge(START, "works").add_edge(START, "asks")
    return builder.compile(checkpointer=saver)


READS: dict[str, Any] = {
    "get_state": lambda graph: graph.get_state(CONFIG),
    "history": lambda graph: [
        (s.values, s.tasks, s.metadata) for s in graph.get_state_history(CONFIG)
    ],
    "resume": lambda graph: graph.invoke(Command(resume="!"), CONFIG, durability="sync"),
    "go on": lambda graph: graph.invoke(None, CONFIG, durability="sync"),
}

PARTS = {
    "all": "",
    "the question": " AND channel = '__interrupt__'",
    "what was done": " AND channel <> '__interrupt__'",
}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("part", PARTS)
def test_pending_writes_that_are_gone_are_missed(saver: Any, durability: str, part: str) -> None:
    ran: list[str] = []
    graph = questions(saver, ran)
    graph.invoke({"log": ["in"]}, CONFIG, durability=durability)
    assert saver.verify() == []
    id = graph.get_state(CONFIG).config["configurable"]["checkpoint_id"]
    where = "WHERE thread_id = 't' AND checkpoint_id = ?" + PARTS[part]
    assert change(saver, f"DELETE FROM checkpoint_writes {where}", id) >= 1
    for read in READS.values():
        with pytest.raises(BrokenChainError, match=f"(?s)'{id}'.*'t'"):
            read(questions(without_cache(saver), ran))
    assert ran == ["works"]
    [problem] = saver.verify()
    assert problem[:4] == ("t", "", "checkpoint_writes", id)


def test_an_answer_that_is_gone_is_missed(saver: Any) -> None:
    """It was stored before its task ran, and the task has not got to its end."""
    graph = questions(saver, [])
    graph.invoke({"log": ["in"]}, CONFIG, durability="sync")
    graph.invoke(Command(resume="!"), CONFIG, durability="sync")
    assert [i.value for i in graph.get_state(CONFIG).interrupts] == ["second?"]
    assert saver.verify() == []
    assert change(saver, "DELETE FROM checkpoint_writes WHERE channel = '__resume__'") >= 1
    for read in READS.values():
        with pytest.raises(BrokenChainError, match="'t'"):
            read(questions(without_cache(saver), []))
    assert len(saver.verify()) == 1


def test_writes_before_a_later_checkpoint_are_missed(saver: Any) -> None:
    """Also what came together with the checkpoint that it led to, if it has rows of its own."""
    builder = StateGraph(State).add_node("a", lambda _: {"log": ["a" * 2000]})
    builder.add_node("b", lambda _: {"log": ["b" * 2000]}).add_node("c", lambda _: {"log": ["c"]})
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": ["in"]}, CONFIG, durability="sync")
    assert saver.verify() == []
    counted = rows(saver, "SELECT DISTINCT checkpoint_id FROM checkpoint_writes")
    assert len(counted) >= 2
    for (id,) in counted:
        kept = rows(saver, "SELECT * FROM checkpoint_writes WHERE checkpoint_id = ?", id)
        change(saver, "DELETE FROM checkpoint_writes WHERE checkpoint_id = ?", id)
        at = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}
        with pytest.raises(BrokenChainError, match=id):
            without_cache(saver).get_tuple({"configurable": at})
        with pytest.raises(BrokenChainError, match=id):
            [record.pending_writes for record in without_cache(saver).list(CONFIG)]
        assert [problem.key for problem in saver.verify()] == [id]
        marks = ", ".join("?" * len(kept[0]))
        for row in kept:
            change(saver, f"INSERT INTO checkpoint_writes VALUES ({marks})", *row)
        assert saver.verify() == []


def test_inline_writes_that_are_gone_are_missed(saver: Any) -> None:
    graph = line("a", "b", "c").compile(checkpointer=saver)
    graph.invoke({}, CONFIG, durability="sync")
    assert saver.verify() == []
    found = rows(
        saver,
        "SELECT checkpoint_id, parent_checkpoint_id, led FROM checkpoints WHERE led IS NOT NULL",
    )
    assert len(found) >= 2
    for child, parent, led in found:
        change(saver, "UPDATE checkpoints SET led = NULL WHERE checkpoint_id = ?", child)
        at = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": parent}
        with pytest.raises(BrokenChainError, match=parent):
            without_cache(saver).get_tuple({"configurable": at})
        with pytest.raises(BrokenChainError, match=parent):
            [record.pending_writes for record in without_cache(saver).list(CONFIG)]
        with pytest.raises(BrokenChainError, match=parent):
            READS["history"](line("a", "b", "c").compile(checkpointer=without_cache(saver)))
        assert [problem.key for problem in saver.verify()] == [parent]
        change(saver, "UPDATE checkpoints SET led = ? WHERE checkpoint_id = ?", led, child)
    assert saver.verify() == []


class Deltas(TypedDict, total=False):
    log: Annotated[list[Any], DeltaChannel(lambda old, new: [*old, *(x for w in new for x in w)])]


@pytest.mark.parametrize("text", ["x", "x" * 2000], ids=["inline", "rows"])
def test_a_delta_channel_is_not_rebuilt_without_what_is_gone(saver: Any, text: str) -> None:
    builder = StateGraph(Deltas).add_sequence([(n, lambda _: {"log": [text]}) for n in "abc"])
    graph = builder.add_edge(START, "a").compile(checkpointer=saver)
    graph.invoke({"log": ["in"]}, CONFIG, durability="sync")
    assert graph.get_state(CONFIG).values == {"log": ["in", text, text, text]}
    second = list(graph.get_state_history(CONFIG))[2].config["configurable"]["checkpoint_id"]
    if text == "x":
        sql = "UPDATE checkpoints SET led = NULL WHERE parent_checkpoint_id = ?"
    else:
        sql = "DELETE FROM checkpoint_writes WHERE checkpoint_id = ?"
    assert change(saver, sql, second) >= 1
    graph = builder.compile(checkpointer=without_cache(saver))
    with pytest.raises(BrokenChainError, match=second):
        graph.get_state(CONFIG)
    with pytest.raises(BrokenChainError, match=second):
        graph.invoke({"log": ["more"]}, CONFIG, durability="sync")


def test_an_entry_that_was_put_back_does_not_make_an_old_state_the_latest(saver: Any) -> None:
    graph = line("a").compile(checkpointer=saver)
    graph.invoke({}, CONFIG, durability="sync")
    old = rows(saver, "SELECT head, token, epoch, status FROM threads WHERE thread_id = 't'")[0]
    graph.invoke({}, CONFIG, durability="sync")
    latest = graph.get_state(CONFIG)
    assert latest.values == {"log": ["a", "a"]}
    sql = "UPDATE threads SET head = ?, token = ?, epoch = ?, status = ? WHERE thread_id = 't'"
    change(saver, sql, *old)
    fresh = line("a").compile(checkpointer=without_cache(saver))
    for read in (
        lambda: graph.get_state(CONFIG),
        lambda: fresh.get_state(CONFIG),
        lambda: fresh.invoke({}, CONFIG),
        lambda: fresh.update_state(CONFIG, {"log": ["x"]}),
        lambda: without_cache(saver).get_delta_channel_history(config=CONFIG, channels=["log"]),
    ):
        with pytest.raises(DamagedRowError, match=f"'t'.*'{old[0]}'"):
            read()
    [problem] = saver.verify()
    assert problem[:4] == ("t", "", "threads", "t")
    # The history does not ask the registry, and tells where to go on from.
    history = list(fresh.get_state_history(CONFIG))
    assert history[0].values == {"log": ["a", "a"]}
    assert fresh.invoke({}, history[0].config, durability="sync") == {"log": ["a", "a", "a"]}
    assert fresh.get_state(CONFIG).values == {"log": ["a", "a", "a"]}
    assert saver.verify() == []


@pytest.mark.parametrize("text", ["x", "x" * 2000], ids=["inline", "rows"])
def test_writes_whose_checkpoint_was_removed_are_still_missed(saver: Any, text: str) -> None:
    """What a run had done before the one that it made was removed: it is not done again."""
    ran: list[str] = []

    def node(_: State) -> Any:
        ran.append("b")
        return {"log": [text]}

    builder = StateGraph(State).add_node("a", lambda _: {"log": ["a"]}).add_node("b", node)
    builder.add_edge(START, "a").add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": ["in"]}, CONFIG, durability="sync")
    second = list(graph.get_state_history(CONFIG))[1].config["configurable"]["checkpoint_id"]
    latest = graph.get_state(CONFIG).config["configurable"]["checkpoint_id"]
    change(saver, "UPDATE checkpoints SET run_id = 'r' WHERE checkpoint_id = ?", latest)
    saver.delete_for_runs(["r"])
    assert saver.verify() == []
    graph = builder.compile(checkpointer=without_cache(saver))
    assert graph.get_state(CONFIG).config["configurable"]["checkpoint_id"] == second
    assert graph.get_state(CONFIG).values == {"log": ["in", "a", text]}
    assert change(saver, "DELETE FROM checkpoint_writes WHERE checkpoint_id = ?", second) >= 1
    with pytest.raises(BrokenChainError, match=second):
        builder.compile(checkpointer=without_cache(saver)).invoke(None, CONFIG)
    assert saver.verify()[0].key == second
    assert ran == ["b"]


def test_a_damaged_thread_is_not_pruned_into_a_sound_one(saver: Any) -> None:
    """The checkpoint that tells of the loss would be removed."""
    graph = line("a", "b", "c").compile(checkpointer=saver)
    graph.invoke({}, CONFIG, durability="sync")
    latest = graph.get_state(CONFIG)
    id = latest.config["configurable"]["checkpoint_id"]
    change(saver, "UPDATE checkpoints SET led = NULL, run_id = 'r' WHERE checkpoint_id = ?", id)
    before = latest.parent_config["configurable"]["checkpoint_id"]
    with pytest.raises(BrokenChainError, match=before):
        saver.delete_for_runs(["r"])
    assert [problem.key for problem in saver.verify()] == [before]


@pytest.mark.parametrize("step", ["copy", "load", "prune", "reencrypt", "answer", "put again"])
def test_what_is_counted_stays_right(saver: Any, step: str) -> None:
    """Whatever becomes of a thread: nothing is missed that is there, and what is gone still is."""
    ran: list[str] = []
    graph = questions(saver, ran)
    graph.invoke({"log": ["in"]}, CONFIG, durability="sync")
    config, reader = CONFIG, saver
    if step == "copy":
        saver.copy_thread("t", "u")
        config = thread("u")
    elif step == "load":
        lines = list(saver.dump(["t"]))
        saver.load(lines, rename={"t": "u"})
        config = thread("u")
    elif step == "prune":
        saver.prune(["t"])
    elif step == "reencrypt":
        if not isinstance(saver.serde, EncryptedSerializer):
            pytest.skip("nothing is encrypted")
        reader = saver.with_serde(ring(old=b"o" * 32, new=b"n" * 32))
        assert reader.reencrypt().resealed
    elif step == "answer":
        graph.invoke(Command(resume="!"), config, durability="sync")
    else:
        found = saver.get_tuple(config)
        saver.put(
            found.parent_config,
            found.checkpoint,
            found.metadata,
            found.checkpoint["channel_versions"],
        )
    assert reader.verify() == []
    graph = questions(without_cache(reader), ran)
    waiting = [i.value for i in graph.get_state(config).interrupts]
    assert waiting == ["second?" if step == "answer" else "first?"]
    assert change(saver, "DELETE FROM checkpoint_writes WHERE channel = '__interrupt__'") >= 1
    with pytest.raises(BrokenChainError):
        questions(without_cache(reader), ran).get_state(config)
    assert len(reader.verify()) >= 1


def test_a_database_of_an_earlier_version_is_not_checked_for_what_it_does_not_say(
    saver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from milepost.checkpoint._sql import manifest as manifests
    from milepost.checkpoint._sql import metadata as metadata_cells

    with_writes, counted = manifests.with_writes, metadata_cells.counted
    monkeypatch.setattr(manifests, "with_writes", lambda packed, _: packed)
    monkeypatch.setattr(metadata_cells, "counted", lambda kind, data, _: (kind, data))
    graph = questions(saver, [])
    graph.invoke({"log": ["in"]}, CONFIG, durability="sync")
    monkeypatch.undo()
    assert manifests.with_writes is with_writes
    assert metadata_cells.counted is counted
    assert saver.verify() == []
    graph = questions(without_cache(saver), [])
    assert [i.value for i in graph.get_state(CONFIG).interrupts] == ["first?"]
    graph.invoke(Command(resume="!"), CONFIG, durability="sync")
    assert graph.invoke(Command(resume="!!"), CONFIG, durability="sync")["log"] == [
        "in",
        "!",
        "!!",
        "done",
    ]
    assert saver.verify() == []


def test_a_count_cannot_be_taken_away_without_its_metadata(saver: Any) -> None:
    """A checkpoint whose rows were deleted is damaged, even if its counts say that there were none."""
    graph = questions(saver, [])
    graph.invoke({"log": ["in"]}, CONFIG, durability="sync")
    change(saver, "DELETE FROM checkpoint_writes")
    sql = "UPDATE checkpoints SET metadata_type = ? WHERE metadata_type LIKE '=%%'"
    if "Postgres" not in type(saver).__name__:
        sql = sql.replace("%%", "%")
    assert change(saver, sql, "-") == 1
    with pytest.raises(SerdeError):
        questions(without_cache(saver), []).get_state(CONFIG)


def test_a_page_of_a_history_is_checked_by_the_one_before_it(saver: Any) -> None:
    graph = line("a").compile(checkpointer=saver)
    for _ in range(PAGE):
        graph.invoke({}, CONFIG, durability="sync")
    ids = [record.config["configurable"]["checkpoint_id"] for record in saver.list(CONFIG)]
    sql = "UPDATE checkpoints SET led = NULL WHERE led IS NOT NULL AND checkpoint_id = ?"
    edge = next(at for at in range(PAGE - 1, len(ids)) if change(saver, sql, ids[at]))
    later = {"configurable": {"thread_id": "t", "checkpoint_id": ids[edge]}}
    root = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    [found] = without_cache(saver).list(root, before=later, limit=1)
    assert found.config["configurable"]["checkpoint_id"] == ids[edge + 1]
    with pytest.raises(BrokenChainError, match=ids[edge + 1]):
        assert found.pending_writes


def test_a_history_is_sound_if_its_thread_is_pruned_between_two_pages(saver: Any) -> None:
    """What the page before has told is not held against what became of the thread since."""
    graph = line("a").compile(checkpointer=saver)
    for _ in range(PAGE):
        graph.invoke({}, CONFIG, durability="sync")
    ids = [record.config["configurable"]["checkpoint_id"] for record in saver.list(CONFIG)]
    records = without_cache(saver).list(CONFIG)
    seen = [next(records) for _ in range(PAGE)]
    for id in ids[: PAGE + 1]:
        change(saver, "UPDATE checkpoints SET run_id = 'r' WHERE checkpoint_id = ?", id)
    saver.delete_for_runs(["r"])
    seen += records
    assert len(seen) == len(ids) - 1
    assert [tuple(record)[4] is not None for record in seen] == [True] * len(seen)
    assert saver.verify() == []
