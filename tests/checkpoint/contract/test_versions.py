"""Versions of channels sort as their counters do, whatever their form and however large."""

from typing import Any

import pytest
from typing_extensions import TypedDict

from graphs import thread
from milepost.checkpoint._contract.versions import counter_of, counter_text
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph

EDGE = 10**8

FORMS = {
    "eight digits": lambda counter: f"{counter:08}.AbC+/z09",
    "LangGraph's": lambda counter: f"{counter:032}.0123456789012345",
    "memory's": lambda counter: f"{counter:032}.00ff00ff00ff00ff",
}
"""As they are stored by earlier versions, and by LangGraph."""


class Count(TypedDict):
    n: int
    last: int


def loop(saver: Any, library: Any = None, **settings: Any) -> Any:
    """Counts to `last`."""
    builder = (StateGraph if library is None else library)(Count)
    builder.add_node("count", lambda s: {"n": s["n"] + 1})
    builder.add_edge(START, "count")
    more = lambda s: "count" if s["n"] < s["last"] else END  # noqa: E731
    builder.add_conditional_edges("count", more, ["count", END])
    return builder.compile(checkpointer=saver, **settings)


def aged(saver: Any, form: Any, by: int, source: Any = None) -> None:
    """A thread "far" that waits before its first node, as if so many versions had come before."""
    source = source or saver
    paused = loop(source, interrupt_before=["count"])
    paused.invoke({"n": 0, "last": 40}, thread("near"))
    found = source.get_tuple(thread("near"))

    def older(versions: dict[str, Any]) -> dict[str, Any]:
        return {
            name: form(counter + by) if (counter := counter_of(version)) is not None else version
            for name, version in versions.items()
        }

    checkpoint = {
        **found.checkpoint,
        "channel_versions": older(found.checkpoint["channel_versions"]),
        "versions_seen": {
            node: older(seen) for node, seen in found.checkpoint["versions_seen"].items()
        },
    }
    place = {"configurable": {"thread_id": "far", "checkpoint_ns": ""}}
    metadata = {key: found.metadata[key] for key in ("source", "step")}
    saver.put(place, checkpoint, metadata, checkpoint["channel_versions"])


def test_counters_sort_as_numbers_do():
    around = [10**k + d for k in range(20) for d in (-1, 0, 1)]
    counters = sorted({counter for counter in around if counter > 0})
    texts = [f"{counter_text(counter)}.x" for counter in counters]
    assert texts == sorted(texts)
    assert [counter_of(text) for text in texts] == counters


def test_a_counter_below_the_edge_is_stored_as_before():
    assert [counter_text(n) for n in (1, EDGE - 1)] == ["00000001", "99999999"]


def test_what_is_no_version_has_no_counter():
    assert [counter_of(text) for text in ("run 5", "a5", "b100000000.x", "", "abc.1")] == [None] * 5


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("start", [1, EDGE - 2, EDGE - 1, 10**9 - 2])
def test_the_next_version_is_larger_than_all_before_it(saver, form, start):
    if form is FORMS["eight digits"] and start >= EDGE:
        start = EDGE - 1
    versions = [form(start - 1), form(start)]
    for _ in range(4):
        versions.append(saver.get_next_version(versions[-1], None))
        assert versions[-1] > max(versions[:-1])
    assert [counter_of(version) for version in versions] == list(range(start - 1, start + 5))


def test_a_thread_that_was_stuck_at_the_edge_has_a_next_version(saver):
    """Its newest version sorts before the one below it, which is taken for the newest."""
    stuck = [f"{EDGE - 1}.AbC+/z09", f"{EDGE}.AbC+/z09"]
    after = saver.get_next_version(max(stuck), None)
    assert after > max(stuck)
    assert saver.get_next_version(after, None) > after


def test_a_version_without_a_number_is_named(saver):
    with pytest.raises(ValueError, match=r"'one\.two' is no version"):
        saver.get_next_version("one.two", None)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("by", [0, EDGE - 20])
def test_a_thread_goes_on_past_the_edge(saver, form, by):
    aged(saver, form, by)
    graph = loop(saver)
    assert graph.invoke(None, {**thread("far"), "recursion_limit": 99}) == {"n": 40, "last": 40}
    newest = saver.get_tuple(thread("far")).checkpoint["channel_versions"]
    assert (counter_of(max(newest.values())) > EDGE) is (by > 0)
    assert graph.invoke({"n": 7, "last": 9}, thread("far")) == {"n": 9, "last": 9}
    assert graph.get_state(thread("far")).values == {"n": 9, "last": 9}
    # 40 counts, the one that waited, an input, its step and two counts.
    assert len(list(graph.get_state_history(thread("far")))) == 40 + 1 + 4


def test_a_thread_that_was_copied_from_a_database_goes_on_in_memory(tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as source:
        memory = InMemorySaver()
        aged(memory, FORMS["eight digits"], EDGE - 20, source)
        graph = loop(memory)
        assert graph.invoke(None, {**thread("far"), "recursion_limit": 99})["n"] == 40


@pytest.mark.parametrize("back", [False, True], ids=["there", "and back"])
def test_a_thread_past_the_edge_goes_on_in_langgraph(tmp_path, back):
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    theirs = pytest.importorskip("langgraph.graph")
    from milepost.cli import main

    ours, there, again = (str(tmp_path / name) for name in ("ours.db", "theirs.db", "again.db"))
    with SqliteSaver.from_conn_string(ours) as saver:
        aged(saver, FORMS["eight digits"], EDGE - 10)
        settings = {**thread("far"), "recursion_limit": 99}
        loop(saver, interrupt_after=["count"]).invoke(None, settings)
        for _ in range(20):
            loop(saver, interrupt_after=["count"]).invoke(None, settings)
        versions = saver.get_tuple(thread("far")).checkpoint["channel_versions"]
        assert counter_of(max(versions.values())) > EDGE
    assert (
        main(["export", "--from", f"sqlite:///{ours}", "--to-langgraph", f"sqlite:///{there}"]) == 0
    )
    if back:
        assert (
            main(["import", "--from-langgraph", f"sqlite:///{there}", "--to", f"sqlite:///{again}"])
            == 0
        )
        with SqliteSaver.from_conn_string(again) as saver:
            assert loop(saver).invoke(None, settings)["n"] == 40
    else:
        with sqlite.SqliteSaver.from_conn_string(there) as saver:
            assert loop(saver, theirs.StateGraph).invoke(None, settings)["n"] == 40
