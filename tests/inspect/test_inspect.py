"""Threads, states, tags and histories, on each kind of saver."""

import operator
from typing import Annotated, TypedDict

import pytest
from inspect_shop import State, at, builder, fill

from milepost.graph import START, StateGraph
from milepost.inspect import (
    AmbiguousReferenceError,
    BadReferenceError,
    Database,
    InspectError,
    ReadOnlyError,
    Ref,
    StateNotFoundError,
    ThreadNotFoundError,
    answer,
    bisect,
    copy_thread,
    delete_threads,
    diff,
    fork,
    log,
    namespaces,
    prune,
    prune_preview,
    resume,
    run,
    show,
    stats,
    tag,
    tags,
    tail,
    thread,
    threads,
    untag,
)
from milepost.inspect.parts import Follower
from milepost.types import Send, interrupt


@pytest.fixture
def db(saver):
    fill(saver)
    return Database.of(saver)


def ids(page):
    return [row.thread_id for row in page.items]


def test_the_keys_of_a_state_are_in_one_order_at_every_checkpoint(saver):
    class Trip(TypedDict):
        wish: str
        price: int
        notes: Annotated[list[str], operator.add]

    built = StateGraph(Trip).add_node("search", lambda _: {"notes": ["a room"], "price": 120})
    graph = built.add_edge(START, "search").compile(checkpointer=saver)
    graph.invoke({"wish": "two nights"}, at("trip"))
    db = Database.of(saver)
    assert list(show(db, Ref("trip")).values) == ["notes", "price", "wish"]
    fork(db, Ref("trip"), {"price": 90, "notes": []})
    assert list(show(db, Ref("trip")).values) == ["notes", "price", "wish"]
    changed = diff(db, Ref.parse("trip@~1"), Ref("trip"))
    assert [change.path[0] for change in changed] == ["notes", "price"]


class TestThreads:
    def test_those_that_were_used_last_come_first(self, db):
        assert ids(threads(db)) == ["broken", "open", "done"]
        assert ids(threads(db, sort="thread_id")) == ["broken", "done", "open"]
        assert ids(threads(db, descending=False)) == ["done", "open", "broken"]

    def test_a_page_tells_how_many_there_are(self, db):
        page = threads(db, sort="thread_id", limit=1, offset=1)
        assert (ids(page), page.total) == (["done"], 3)

    def test_they_are_found_by_status_metadata_text_and_time(self, db):
        assert ids(threads(db, status="interrupted")) == ["open"]
        assert ids(threads(db, unfinished=True)) == ["broken", "open"]
        assert ids(threads(db, metadata={"owner": "ada"})) == ["open"]
        assert ids(threads(db, metadata={"tags": ["vip"]})) == ["open"]
        assert ids(threads(db, search="DON")) == ["done"]
        assert ids(threads(db, search="ada")) == ["open"]
        assert ids(threads(db, since=thread(db, "open").updated_at)) == ["broken"]
        assert ids(threads(db, before=thread(db, "open").updated_at)) == ["done"]

    def test_an_unknown_status_or_order_is_refused(self, db):
        with pytest.raises(InspectError, match="idle, interrupted"):
            threads(db, status="asleep")
        with pytest.raises(InspectError, match="updated_at"):
            threads(db, sort="size")

    def test_one_thread_has_counts(self, db):
        row = thread(db, "open")
        assert (row.checkpoints, row.status) == (3, "interrupted")
        assert row.bytes > 100

    def test_the_size_of_all_is_that_of_the_threads(self, db):
        found = stats(db)
        assert (found.threads, found.checkpoints) == (3, 10)
        assert sum(one.bytes for one in found.largest) == found.bytes == sum(found.kinds.values())
        assert stats(db, "open").checkpoints == 3


class TestShow:
    def test_the_latest_state_with_what_it_asks(self, db):
        view = show(db, Ref("open"))
        assert view.next == ("ask",)
        assert [one.value for one in view.interrupts] == [{"question": "Buy it?", "count": 1}]
        assert view.values["count"] == 1
        assert view.thread_metadata["owner"] == "ada"
        assert (view.status, view.checkpoints) == ("interrupted", 3)

    def test_an_older_state(self, db):
        view = show(db, Ref.parse("done@~1"))
        assert (view.values["count"], view.interrupts) == (1, ())
        assert view.next == ("ask",)

    def test_a_failure_is_shown_with_its_node(self, db):
        assert [(t.name, t.error) for t in show(db, Ref("broken")).tasks] == [
            ("plan", "RuntimeError: the plan failed")
        ]

    def test_a_part_of_the_values(self, db):
        assert show(db, Ref("done"), path=("messages", 0, "content")).values == "hello"

    def test_it_is_what_the_graph_shows(self, db):
        graph = builder().compile(checkpointer=db.saver)
        history = list(graph.get_state_history(at("done")))
        assert len(history) > 3
        for snapshot in history:
            view = show(db, Ref("done", "", snapshot.config["configurable"]["checkpoint_id"]))
            assert view.next == snapshot.next
            assert view.values.get("count") == snapshot.values.get("count")
            assert view.created_at == snapshot.created_at
            assert [t.name for t in view.tasks] == [t.name for t in snapshot.tasks]
            assert [t.id for t in view.tasks] == [t.id for t in snapshot.tasks]

    def test_a_thread_without_checkpoints_is_empty(self, db):
        db.saver.create_thread("new", {"owner": "bob"})
        view = show(db, Ref("new"))
        assert (view.checkpoint_id, view.values, view.thread_metadata) == (
            None,
            {},
            {"owner": "bob"},
        )


class TestReferences:
    def test_the_beginning_or_the_end_of_an_id_is_enough(self, db):
        entry = next(log(db, "done"))
        assert show(db, Ref("done", "", entry.checkpoint_id)).checkpoint_id == entry.checkpoint_id
        shown = entry.checkpoint_id[-8:]
        for part in (entry.checkpoint_id[-10:], shown, shown[:6], shown[2:]):
            assert show(db, Ref("done", "", part)).checkpoint_id == entry.checkpoint_id

    def test_what_means_several_names_some_of_them(self, db):
        begin = next(log(db, "done")).checkpoint_id[:4]
        with pytest.raises(AmbiguousReferenceError) as caught:
            show(db, Ref("done", "", begin))
        assert len(caught.value.candidates) == 3

    @pytest.mark.parametrize("text", ["done@zzz", "done@~99", "done/inner:1", "done@\ud800"])
    def test_what_is_not_there_is_an_error(self, db, text):
        with pytest.raises(StateNotFoundError):
            show(db, Ref.parse(text))

    def test_a_thread_that_is_not_there_suggests_others(self, db):
        with pytest.raises(ThreadNotFoundError, match="There is done"):
            show(db, Ref("don"))
        for function in (log, thread, tags, namespaces):
            with pytest.raises(ThreadNotFoundError):
                list(function(db, "none"))


class TestTags:
    def test_a_tag_means_its_checkpoint(self, db):
        made = tag(db, Ref.parse("done@~1"), "good")
        assert show(db, Ref.parse("done@good")).checkpoint_id == made.checkpoint_id
        assert show(db, Ref.parse("done@good~1")).values.get("count") is None
        assert [e.tags for e in log(db, "done") if e.tags] == [("good",)]
        assert [(t.name, t.exists) for t in tags(db, "done")] == [("good", True)]

    def test_tags_are_no_metadata_of_the_user(self, db):
        tag(db, Ref("open"), "x")
        assert thread(db, "open").metadata == {"owner": "ada", "tags": ["vip"]}
        assert threads(db, metadata={"owner": "ada"}).items[0].metadata["owner"] == "ada"

    def test_a_tag_moves_and_is_removed(self, db):
        tag(db, Ref("done"), "x")
        tag(db, Ref.parse("done@~1"), "x")
        assert len(tags(db, "done")) == 1
        untag(db, "done", "x")
        assert tags(db, "done") == []
        with pytest.raises(StateNotFoundError, match="no tag"):
            untag(db, "done", "x")

    def test_a_tag_whose_checkpoint_was_removed_says_so(self, db):
        tag(db, Ref.parse("done@~1"), "old")
        prune(db, ["done"])
        assert [t.exists for t in tags(db, "done")] == [False]

    @pytest.mark.parametrize("name", ["", "~1", "a@b", "a b", "-x", "x" * 101])
    def test_a_name_that_could_mean_something_else_is_refused(self, db, name):
        with pytest.raises(BadReferenceError):
            tag(db, Ref("done"), name)


class TestGoingOn:
    def test_an_answer_lets_a_thread_go_on(self, db):
        id = show(db, Ref("open")).interrupts[0].id
        events = answer(db, builder().compile(), "open", "sure", interrupt_id=id[:6])
        [update] = [event.data for event in events if event.mode == "updates"]
        assert update["ask"]["count"] == 2
        assert show(db, Ref("open")).next == ()

    def test_an_answer_after_an_update_is_for_what_the_waiting_node_asks(self, db):
        graph = builder().compile()
        fork(db, Ref("open"), {"count": 7}, graph=graph, as_node="plan")
        assert show(db, Ref("open")).interrupts == ()
        with pytest.raises(StateNotFoundError, match="asks nothing"):
            answer(db, graph, "open", "sure", interrupt_id="ab")
        list(answer(db, graph, "open", "sure"))
        view = show(db, Ref("open"))
        assert (view.next, view.values["count"]) == ((), 8)
        assert view.values["messages"][-1]["content"] == "answer: sure"

    def test_an_answer_to_what_was_not_asked_yet_says_how_it_is_asked(self, db):
        fork(db, Ref("open"), {"count": 7})
        with pytest.raises(StateNotFoundError, match="not asked yet: ask"):
            answer(db, builder().compile(), "open", "sure")

    def test_an_answer_to_nothing_is_refused(self, db):
        with pytest.raises(StateNotFoundError, match=r"asks nothing\.$"):
            answer(db, builder().compile(), "done", 1)
        with pytest.raises(StateNotFoundError, match="none, or not only one"):
            answer(db, builder().compile(), "open", 1, interrupt_id="zz")

    def test_a_run_makes_a_thread_and_a_resume_repeats_it(self, db):
        graph = builder().compile()
        list(run(db, graph, "fresh", {"messages": []}))
        assert show(db, Ref("fresh")).next == ("ask",)
        list(resume(db, graph, Ref.parse("fresh@~1")))
        assert show(db, Ref("fresh")).values["count"] == 1
        assert len(list(log(db, "fresh"))) > 3

    def test_a_fork_without_a_graph_sets_keys_and_leaves_the_rest(self, db):
        before = show(db, Ref.parse("done@~1"))
        made = fork(db, Ref("done", "", before.checkpoint_id), {"count": 9})
        view = show(db, made)
        assert view.values == {**before.values, "count": 9}
        assert (view.next, view.parent_id) == (before.next, before.checkpoint_id)
        graph = builder().compile(checkpointer=db.saver)
        assert graph.get_state(at("done")).values["order"].items == ["tea"]
        graph.invoke(None, at("done"))
        assert graph.get_state(at("done")).values["count"] == 9

    def test_a_fork_with_a_graph_goes_through_reducers(self, db):
        made = fork(db, Ref("done"), {"messages": ["more"]}, graph=builder().compile())
        assert show(db, made).values["messages"][-1] == "more"
        assert (
            len(show(db, made).values["messages"])
            == len(show(db, Ref.parse("done@~1")).values["messages"]) + 1
        )

    def test_a_fork_of_a_key_that_is_not_there_is_refused(self, db):
        with pytest.raises(StateNotFoundError, match="no key 'nope'"):
            fork(db, Ref("done"), {"nope": 1})

    def test_what_is_opened_for_reading_is_not_changed(self, db):
        reading = Database.of(db.saver, writable=False)
        graph = builder().compile()
        for call in (
            lambda: fork(reading, Ref("done"), {"count": 1}),
            lambda: tag(reading, Ref("done"), "x"),
            lambda: run(reading, graph, "x", {}),
            lambda: resume(reading, graph, Ref("done")),
            lambda: answer(reading, graph, "open", 1),
            lambda: copy_thread(reading, "done", "x"),
            lambda: delete_threads(reading, ["done"]),
            lambda: prune(reading, ["done"]),
        ):
            with pytest.raises(ReadOnlyError):
                call()
        assert stats(db).checkpoints == 10


class TestHistory:
    def test_forks_and_what_made_each_checkpoint(self, db):
        entries = list(log(db, "done"))
        assert [(e.step, e.source, dict(e.writes)) for e in entries] == [
            (2, "update", {"ask": ["count"]}),
            (2, "loop", {"ask": ["messages", "count"]}),
            (1, "loop", {"plan": ["messages", "count", "order"]}),
            (0, "loop", {"__start__": ["messages"]}),
            (-1, "input", {"__start__": ["messages"]}),
        ]
        assert entries[0].parent_id == entries[1].parent_id == entries[2].checkpoint_id

    def test_a_part_of_it(self, db):
        whole = [e.checkpoint_id for e in log(db, "done")]
        assert [e.checkpoint_id for e in log(db, "done", limit=2)] == whole[:2]
        after = log(db, "done", before=whole[1], limit=2)
        assert [e.checkpoint_id for e in after] == whole[2:4]

    def test_a_tail_is_in_the_order_of_time(self, db):
        whole = [e.checkpoint_id for e in log(db, "done")]
        shown = tail(db, "done", last=2, follow=False)
        assert [e.checkpoint_id for e in shown] == whole[1::-1]

    def test_a_tail_that_follows_gives_what_is_added(self, db):
        following = tail(db, "done", last=0, poll=0.01)
        fork(db, Ref("done"), {"count": 7})
        newest = next(log(db, "done")).checkpoint_id
        fork(db, Ref("done"), {"count": 8})
        assert next(following).checkpoint_id == newest
        assert next(following).parent_id == newest

    def test_a_tail_that_follows_tells_of_a_question(self, saver):
        graph = StateGraph(State).add_node("ask", lambda _: {"text": interrupt("which?")})
        graph = graph.add_edge(START, "ask").compile(checkpointer=saver)
        graph.invoke({"messages": []}, at("t"), interrupt_before=["ask"])
        following = tail(Database.of(saver), "t", last=1, poll=0.01)
        before = next(following)
        graph.invoke(None, at("t"))
        asking = next(following)
        assert asking.checkpoint_id == before.checkpoint_id
        assert [one.value for one in asking.tasks[0].interrupts] == ["which?"]

    def test_who_follows_is_told_of_what_comes_after_what_is_known(self, db):
        whole = [entry.checkpoint_id for entry in log(db, "done")]
        follower = Follower(db, "done", after=whole[1])
        assert [entry.checkpoint_id for entry in follower.look()] == whole[1::-1]
        assert follower.look() == []
        ahead = Follower(db, "done", after="f")
        assert (ahead.look(), ahead.look()) == ([], [])

    def test_who_follows_an_inner_graph_is_told_of_its_beginning(self, saver):
        inner = StateGraph(State).add_node("in", lambda _: {"count": 1}).add_edge(START, "in")
        graph = StateGraph(State).add_node("out", inner.compile(checkpointer=True))
        graph = graph.add_edge(START, "out").compile(checkpointer=saver)
        graph.invoke({"messages": []}, at("t"), interrupt_before=["out"])
        follower = Follower(Database.of(saver), "t", namespace="out")
        assert follower.look() == []
        graph.invoke(None, at("t"))
        assert [entry.step for entry in follower.look()] == [-1, 0, 1]

    def test_tasks_that_a_send_started_are_told_by_their_nodes(self, saver):
        graph = StateGraph(State)
        graph.add_node("split", lambda _: {"count": 1})
        graph.add_node("part", lambda state: {"messages": [state["text"]]})
        graph.add_edge(START, "split")
        graph.add_conditional_edges("split", lambda _: [Send("part", {"text": t}) for t in "ab"])
        graph.compile(checkpointer=saver).invoke({"messages": []}, at("t"))
        newest, before, *_ = log(Database.of(saver), "t")
        assert dict(newest.writes) == {"part": ["messages"]}
        assert list(before.next) == ["part", "part"]
        assert all(task.finished for task in before.tasks)

    def test_inner_graphs_have_histories_of_their_own(self, saver):
        inner = StateGraph(State)
        inner.add_node("deep", lambda _: {"count": 5})
        inner.add_edge(START, "deep")
        outer = StateGraph(State)
        outer.add_node("sub", inner.compile())
        outer.add_edge(START, "sub")
        outer.compile(checkpointer=saver).invoke({"messages": []}, at("t"))
        db = Database.of(saver)
        root, space = namespaces(db, "t")
        assert root == ""
        assert space.startswith("sub:")
        assert dict(next(log(db, "t", namespace=space)).writes) == {"deep": ["count"]}
        assert show(db, Ref("t", space)).values["count"] == 5
        assert show(db, Ref.parse(str(Ref("t", space)))).values["count"] == 5

    @pytest.mark.parametrize("halving", [False, True])
    def test_bisect_finds_the_first_state_that_fits(self, db, halving):
        found = bisect(db, Ref.parse("done@~1"), lambda s: s.get("count", 0) > 0, halving=halving)
        assert found is not None
        assert (found.step, dict(found.writes)) == (1, {"plan": ["messages", "count", "order"]})
        assert bisect(db, Ref("done"), lambda _: False, halving=halving) is None


class TestUpkeep:
    def test_a_preview_counts_what_a_prune_removes(self, db):
        seen = prune_preview(db, ["done"])
        assert seen.checkpoints == 4
        assert len(list(log(db, "done"))) == 5
        assert prune(db, ["done"]).checkpoints == 4
        assert len(list(log(db, "done"))) == 1

    def test_a_copy_has_the_same_states_and_a_deleted_thread_none(self, db):
        copy_thread(db, "done", "twin")
        assert diff(db, Ref("done"), Ref("twin")) == []
        delete_threads(db, ["done"])
        with pytest.raises(ThreadNotFoundError):
            show(db, Ref("done"))
        with pytest.raises(ThreadNotFoundError):
            delete_threads(db, ["twin", "none"])
        assert show(db, Ref("twin")).values["count"] == 50
