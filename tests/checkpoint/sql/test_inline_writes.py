"""A usual step is one row, and the registry's is left alone: nobody can tell from outside."""

import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from graphs import counter, thread
from milepost.checkpoint._contract.step_saver import TaskWrites
from milepost.checkpoint._sql.threads.retention import Remover
from milepost.checkpoint.base import empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.encrypted import EncryptedSerializer
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import DamagedRowError, ThreadConflict
from milepost.graph import END, START, StateGraph
from savers import first_step


def written(saver: Any, config: Any) -> list[list[tuple[str, Any]]]:
    """Newest first, what the tasks at each checkpoint of a thread have written."""
    return [[write[1:] for write in found.pending_writes] for found in saver.list(config)]


def select(saver: Any, sql: str) -> list[Any]:
    """The answer of a saver's database."""
    return list(saver.conn.execute(sql).fetchall())


def made(saver: Any, last: int = 5) -> list[list[tuple[str, Any]]]:
    """A run on thread "t", and what was written in it."""
    counter(saver, last).invoke({"n": 0}, thread("t"), durability="sync")
    return written(saver, thread("t"))


def expected(last: int = 5) -> list[list[tuple[str, Any]]]:
    return made(InMemorySaver(), last)


# -- writes in the row of the checkpoint that they led to


def test_a_usual_run_has_one_row_a_step_and_all_its_writes(saver, reopen):
    assert made(saver) == expected()
    assert select(saver, "SELECT COUNT(*) FROM checkpoints WHERE led IS NOT NULL")[0][0] == 6
    assert select(saver, "SELECT COUNT(*) FROM checkpoint_writes")[0][0] == 0
    with reopen() as other:
        assert written(other, thread("t")) == expected()
        for found in other.list(thread("t")):
            assert other.get_tuple(found.config).pending_writes == found.pending_writes


def test_a_run_that_claims_its_thread_first_has_one_row_a_step_too(sqlite):
    for run in (1, 2):
        config = thread("t")
        counter(sqlite, 5).invoke({"n": 0}, config, durability="sync", on_conflict="reject")
        inline = "SELECT COUNT(*) FROM checkpoints WHERE led IS NOT NULL"
        assert select(sqlite, inline)[0][0] == 6 * run


def test_a_listing_with_gaps_has_the_writes_of_what_it_shows(saver):
    made(saver)
    assert written(saver, thread("t")) == expected()
    ids = [found.checkpoint["id"] for found in saver.list(thread("t"))]
    for at, id in enumerate(ids):
        before = {"configurable": {"thread_id": "t", "checkpoint_id": id}}
        shown = [
            w for f in saver.list(thread("t"), before=before, limit=1) for w in f.pending_writes
        ]
        assert [write[1:] for write in shown] == (expected()[at + 1] if at + 1 < len(ids) else [])


def test_a_checkpoint_that_comes_between_two_parts_them_but_loses_nothing(saver, reopen):
    made(saver)
    older, newer = [found.checkpoint["id"] for found in saver.list(thread("t"))][2:0:-1]
    between = older + "-"
    assert older < between < newer
    found = saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_id": older}})
    saver.put(found.config, {**found.checkpoint, "id": between}, {"source": "fork"}, {})
    with reopen() as other:
        after = written(other, thread("t"))
        assert list(other.verify()) == []
    assert after[:2] + after[3:] == expected()[:2] + expected()[2:]
    assert after[2] == []


def test_a_checkpoint_that_is_put_beside_a_run_parts_the_runs_own_but_loses_nothing(saver, reopen):
    def run(saver: Any, other: Any) -> list[list[tuple[str, Any]]]:
        def count(state: Any) -> dict[str, int]:
            found = other.get_tuple(thread("t"))
            if state["n"] == 2:
                checkpoint = {**found.checkpoint, "id": empty_checkpoint()["id"]}
                other.put(found.config, checkpoint, {"source": "fork", "step": 9}, {})
            return {"n": state["n"] + 1}

        builder = StateGraph(dict[str, int]).add_node("count", count).add_edge(START, "count")
        builder.add_conditional_edges("count", lambda s: "count" if s["n"] < 5 else END)
        builder.compile(checkpointer=saver).invoke({"n": 0}, thread("t"), durability="sync")
        return written(other, thread("t"))

    with reopen() as other:
        found = run(saver, other)
        shown = [other.get_tuple(found.config) for found in other.list(thread("t"))]
        assert other.verify() == []
    assert found == [[write[1:] for write in record.pending_writes] for record in shown]
    assert found == run(memory := InMemorySaver(), memory)


def test_a_foreign_runtime_that_goes_on_where_a_run_was_begins_one_epoch(saver):
    made(saver)
    epochs = []
    for _ in range(4):
        found = saver.get_tuple(thread("t"))
        version = saver.get_next_version(found.checkpoint["channel_versions"]["n"], None)
        checkpoint = {**found.checkpoint, "id": empty_checkpoint()["id"]}
        checkpoint["channel_values"] = {"n": 1, "branch:to:x": None}
        new_versions = {"n": version, "branch:to:x": version}  # a task waits
        saver.put(found.config, checkpoint, {"source": "loop", "step": 9}, new_versions)
        epochs += select(saver, "SELECT epoch FROM threads")[0]
    assert epochs[0] != epochs[1] == epochs[2] == epochs[3]
    made(saver)
    assert saver.verify() == []


def test_a_put_in_the_transaction_in_which_a_run_takes_the_thread_parts_its_rows_too(sqlite):
    made(sqlite)
    head = sqlite.head("t")
    begun = replace(first_step(sqlite, "t", head), checkpoint_id=head)
    id = begun.new.id
    beside = {**empty_checkpoint(), "channel_versions": {"key": 1}}
    put = sqlite._put(thread("t"), beside, {"source": "fork", "step": 0}, {"key": 1})
    assert sqlite.commit([sqlite.prepare(begun), put]) == [None, None]
    later = first_step(sqlite, "t", fence=begun.fence)
    task = TaskWrites("task", "", "node", [("key", 1)])
    later = replace(later, checkpoint_id=id, writes=[task])
    assert sqlite.commit([sqlite.prepare(later)]) == [None]
    at = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}}
    assert sqlite.get_tuple(at).pending_writes == [("task", "key", 1)]


def test_a_checkpoint_that_is_put_again_leaves_its_parent_what_was_written(saver, reopen):
    made(saver)
    for found in list(saver.list(thread("t"))):
        if found.parent_config is not None:
            saver.put(found.parent_config, found.checkpoint, found.metadata, {})
    with reopen() as other:
        assert written(other, thread("t")) == expected()
        assert list(other.verify()) == []


def test_writes_go_and_stay_with_the_checkpoint_that_they_belong_to(saver, reopen):
    made(saver)
    ids = [found.checkpoint["id"] for found in saver.list(thread("t"))]

    def keep(chosen: set[str]) -> None:
        def choose(history: Any) -> list[Any]:
            return [node for node in history if node[1] in chosen]

        remover = Remover(saver._reader)
        saver.engine.run(partial(remover.keep, "t", choose, dry_run=False), write=True)

    keep(set(ids[2:]))  # the newest two go
    with reopen() as other:
        assert written(other, thread("t")) == expected()[2:]
        assert list(other.verify()) == []
    keep(set(ids[2:4]))  # and all that are older than these
    with reopen() as other:
        assert written(other, thread("t")) == expected()[2:4]
        assert list(other.verify()) == []


def test_an_update_from_within_a_node_does_not_hide_them(saver, reopen):
    def update(n: int) -> None:
        if n == 2:
            graph.update_state(thread("t"), {"n": 2}, as_node="node")

    graph = counter(saver, 4, update)
    graph.invoke({"n": 0}, thread("t"), durability="sync")
    with reopen() as other:
        assert list(other.verify()) == []
        results = [
            sorted(value for _, channel, value in found.pending_writes if channel == "n")
            for found in other.list(thread("t"))
        ]
        # At the checkpoint with n = 2 there are two: the update's, and what the node then returned.
        assert results == [[], [4], [], [2, 3], [2], [1], [0]]


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "encrypted"])
def test_a_thread_moves_with_them(path, sealed):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0" * 16) if sealed else None
    with SqliteSaver.from_conn_string(path, serde=serde) as saver:
        made(saver)
        saver.copy_thread("t", "copy")
        lines = list(saver.dump(["t"]))
        saver.load(lines, rename={"t": "loaded"})
        for id in ("t", "copy", "loaded"):
            assert written(saver, thread(id)) == expected()
        assert list(saver.verify()) == []


def test_what_was_damaged_there_is_told(sqlite):
    made(sqlite)
    sqlite.conn.execute(
        "UPDATE checkpoints SET led = zeroblob(20) WHERE checkpoint_id ="
        " (SELECT MAX(checkpoint_id) FROM checkpoints)"
    )
    newest, before, *_ = sqlite.list(thread("t"))
    with pytest.raises(DamagedRowError, match="inline writes of checkpoint"):
        before.pending_writes
    assert newest.pending_writes == []
    (problem,) = sqlite.verify()
    assert (problem.table, problem.key) == ("checkpoints", newest.checkpoint["id"])


# -- the registry while a run goes on


def seen_in_mid_run(saver: Any, look: Any, at: int = 3) -> Any:
    """What `look` returns from within the node of a run that has saved some steps."""
    found = []
    counter(saver, 5, lambda n: found.append(look()) if n == at else None).invoke(
        {"n": 0}, thread("t"), durability="sync"
    )
    return found[0]


def test_in_mid_run_others_see_the_latest_checkpoint(saver, reopen):
    def look() -> Any:
        with reopen() as other:
            newest = next(iter(other.list(thread("t")))).checkpoint
            assert newest["channel_values"]["n"] == 3
            assert other.get_tuple(thread("t")).checkpoint["id"] == newest["id"]
            assert other.get_thread("t").head == newest["id"]
            assert [info.head for info in other.list_threads()] == [newest["id"]]
            assert other.head("t") == newest["id"]
            return other.get_thread("t").status

    assert seen_in_mid_run(saver, look) == "running"
    last = saver.get_tuple(thread("t")).checkpoint
    assert (saver.get_thread("t").head, saver.get_thread("t").status) == (last["id"], "idle")


def test_a_copy_and_a_dump_of_a_run_in_progress_have_its_latest_checkpoint(saver, reopen):
    def look() -> list[str]:
        with reopen() as other:
            other.copy_thread("t", "copy")
            return list(other.dump(["t"]))

    lines = seen_in_mid_run(saver, look)
    saver.load(lines, rename={"t": "loaded"})
    for id in ("copy", "loaded"):
        assert saver.get_tuple(thread(id)).checkpoint["channel_values"]["n"] == 3
        assert saver.get_thread(id).status == "interrupted"
        assert counter(saver, 5).invoke(None, thread(id)) == {"n": 5}


def test_a_rival_that_loaded_an_earlier_step_of_a_run_in_progress_is_refused(saver, reopen):
    loaded, go_on = threading.Event(), threading.Event()
    outcome: list[Any] = []

    def rival() -> None:
        def wait(_: int) -> None:
            loaded.set()
            assert go_on.wait(30)

        with reopen() as other:
            try:
                counter(other, 5, wait).invoke(None, thread("t"), durability="sync")
            except ThreadConflict as conflict:
                outcome.append(conflict)

    other_run = threading.Thread(target=rival)

    def meanwhile(n: int) -> None:
        if n == 2:
            other_run.start()
            assert loaded.wait(30)
        elif n == 4:
            go_on.set()
            other_run.join(30)

    result = counter(saver, 5, meanwhile).invoke({"n": 0}, thread("t"), durability="sync")
    assert result == {"n": 5}
    assert [type(one) for one in outcome] == [ThreadConflict]
