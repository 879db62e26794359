"""Threads that are stored under one name after another, by several deploys."""

import operator
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from milepost.channels import DeltaChannel
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.serde.evolution import dry_run
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import MissingNodeError
from milepost.graph import END, START, StateGraph
from milepost.types import Command, Send, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class Priced(State, total=False):
    price: int


class Totalled(State, total=False):
    total: int


class Summed(State, total=False):
    sum: int


def says(word: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [word]}


def asks(question: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"log": [interrupt(question)]}


def questions(state: Any) -> list[Any]:
    return [question.value for question in state.interrupts]


@pytest.fixture(params=["memory", "sqlite"])
def deploy(request, tmp_path) -> Iterator[Callable[[], Any]]:
    """Gives the saver of the next deploy: on a database, one that knows nothing of the thread."""
    memory, opened = InMemorySaver(), []

    def next_saver() -> Any:
        if request.param == "memory":
            return memory
        if opened:
            opened.pop().__exit__(None, None, None)
        opened.append(SqliteSaver.from_conn_string(str(tmp_path / "threads.db")))
        return opened[-1].__enter__()

    yield next_saver
    while opened:
        opened.pop().__exit__(None, None, None)


def asking(name: str, saver: Any, schema: Any = State, defer: bool = False, **compiled: Any) -> Any:
    """`say`, then a node that asks, then another one that asks."""
    builder = StateGraph(schema).add_node("say", says("said"))
    builder.add_node(name, asks("sure?"), defer=defer).add_node("more", asks("more?"))
    builder.add_edge(START, "say").add_edge("say", name).add_edge(name, "more")
    return builder.compile(checkpointer=saver, **compiled)


def copied(run: Any, graph: Any, config: Any) -> None:
    run.update_state(graph, config, None, as_node="__copy__")
    run.invoke(graph, None, config)


def replayed(run: Any, graph: Any, config: Any) -> None:
    run.invoke(graph, None, run.get_state(graph, config).config)


def updated(run: Any, graph: Any, config: Any) -> None:
    run.update_state(graph, config, {"log": []}, as_node="say")
    run.invoke(graph, None, config)


def commanded(run: Any, graph: Any, config: Any) -> None:
    run.invoke(graph, Command(update={"log": []}), config)


@pytest.mark.parametrize("between", [copied, replayed, updated, commanded])
class TestAThreadThatWasUsedUnderTheSecondOfThreeNames:
    CHAIN = {"first": "second", "second": "third"}

    @pytest.mark.parametrize("defer", [False, True])
    def test_waits_under_the_third(self, run, deploy, config, between, defer):
        run.invoke(asking("first", deploy(), defer=defer), {"log": []}, config)
        second = asking("second", deploy(), defer=defer, renamed_nodes={"first": "second"})
        between(run, second, config)
        assert questions(run.get_state(second, config)) == ["sure?"]
        saver = deploy()
        third = asking("third", saver, defer=defer, renamed_nodes=self.CHAIN)
        assert dry_run(saver, graph=third)
        assert questions(run.get_state(third, config)) == ["sure?"]
        assert run.invoke(third, Command(resume="yes"), config)["log"] == ["said", "yes"]

    def test_keeps_its_keys(self, run, deploy, config, between):
        run.invoke(asking("ask", deploy(), Priced), {"price": 7, "log": []}, config)
        between(run, asking("ask", deploy(), Totalled, renamed_keys={"price": "total"}), config)
        chain = {"price": "total", "total": "sum"}
        third = asking("ask", deploy(), Summed, renamed_keys=chain)
        assert run.get_state(third, config).values["sum"] == 7
        assert run.invoke(third, Command(resume="yes"), config)["sum"] == 7

    def test_waits_under_the_first_again_after_a_rollback(self, run, deploy, config, between):
        run.invoke(asking("first", deploy()), {"log": []}, config)
        between(run, asking("second", deploy(), renamed_nodes={"first": "second"}), config)
        back = asking("first", deploy(), renamed_nodes={"second": "first"})
        assert questions(run.get_state(back, config)) == ["sure?"]
        assert run.invoke(back, Command(resume="yes"), config)["log"] == ["said", "yes"]

    def test_leaves_nothing_of_the_first(self, run, deploy, config, durability, between):
        run.invoke(asking("first", deploy(), defer=True), {"log": []}, config)
        saver = deploy()
        second = asking("second", saver, defer=True, renamed_nodes={"first": "second"})
        between(run, second, config)
        run.invoke(second, Command(resume="yes"), config, durability=durability)
        checkpoint = saver.get_tuple(config).checkpoint
        names = {*checkpoint["channel_versions"], *checkpoint["versions_seen"]}
        assert not [name for name in names if "first" in name]


@pytest.mark.parametrize("defer", [False, True])
def test_the_map_may_go_once_the_node_has_run(run, deploy, config, durability, defer):
    old = asking("ask", deploy(), defer=defer)
    run.invoke(old, {"log": []}, config, durability=durability)
    new = asking("approve", deploy(), defer=defer, renamed_nodes={"ask": "approve"})
    run.invoke(new, Command(resume="yes"), config, durability=durability)
    without = asking("approve", deploy(), defer=defer)
    assert questions(run.get_state(without, config)) == ["more?"]
    assert run.invoke(without, Command(resume="no"), config)["log"] == ["said", "yes", "no"]


def test_an_answer_at_a_past_checkpoint_reaches_the_renamed_node(run, deploy, config):
    old = asking("ask", deploy())
    run.invoke(old, {"log": []}, config)
    run.invoke(old, Command(resume="1"), config)
    new = asking("approve", deploy(), renamed_nodes={"ask": "approve"})
    (past,) = [state for state in run.history(new, config) if state.next == ("approve",)]
    result = run.invoke(new, Command(resume={past.interrupts[0].id: "2"}), past.config)
    assert result["log"] == ["said", "2"]


class TestTwoNodesThatBecameOne:
    def both(self, saver: Any, **compiled: Any) -> Any:
        builder = StateGraph(State).add_node("a", asks("a?")).add_node("b", asks("b?"))
        builder.add_node("c", asks("c?")).add_edge(["a", "c"], "b")
        builder.add_edge(START, "a").add_edge(START, "b").add_edge(START, "c")
        return builder.compile(checkpointer=saver, **compiled)

    def one(self, saver: Any, name: str, renamed: dict[str, str]) -> Any:
        builder = StateGraph(State).add_node(name, asks("one?")).add_node("c", asks("c?"))
        builder.add_edge(START, name).add_edge(START, "c")
        return builder.compile(checkpointer=saver, renamed_nodes=renamed)

    @pytest.mark.parametrize(("name", "renamed"), [("b", {"a": "b"}), ("d", {"a": "d", "b": "d"})])
    def test_are_refused_if_both_wait(self, run, deploy, config, durability, name, renamed):
        run.invoke(self.both(deploy()), {"log": []}, config, durability=durability)
        saver = deploy()
        one = self.one(saver, name, renamed)
        assert dry_run(saver, graph=one).threads == ["t"]
        for call in (
            lambda: run.get_state(one, config),
            lambda: run.invoke(one, Command(resume="yes"), config, durability=durability),
            lambda: run.update_state(one, config, {"log": []}, as_node="c"),
        ):
            with pytest.raises(MissingNodeError, match=f"'a' and 'b', which are one node '{name}'"):
                call()
        asked = run.get_state(self.both(deploy()), config)
        assert sorted(questions(asked)) == ["a?", "b?", "c?"]

    def test_are_dropped_by_the_end(self, run, deploy, config):
        run.invoke(self.both(deploy()), {"log": []}, config)
        one = self.one(deploy(), "b", {"a": "b"})
        run.update_state(one, config, None, as_node=END)
        assert run.get_state(one, config).next == ()

    def test_go_on_if_one_of_them_waits(self, run, deploy, config):
        builder = StateGraph(State).add_node("say", says("said")).add_node("a", asks("a?"))
        builder.add_node("b", asks("b?")).add_edge(START, "say").add_edge("say", "a")
        run.invoke(builder.compile(checkpointer=deploy()), {"log": []}, config)
        one = self.one(deploy(), "b", {"a": "b"})
        assert questions(run.get_state(one, config)) == ["a?"]
        assert run.invoke(one, Command(resume="yes"), config)["log"] == ["said", "yes"]


class TestKeysInWhatIsStored:
    def reading(self, key: str, schema: Any, saver: Any, fails: bool, **compiled: Any) -> Any:
        def route(state: Any) -> str:
            if fails:
                raise ConnectionError
            return "read"

        builder = StateGraph(schema).add_node("read", lambda state: {"log": [state.get(key)]})
        builder.add_conditional_edges(START, route, ["read"])
        return builder.compile(checkpointer=saver, **compiled)

    def test_of_the_input_are_renamed_where_the_thread_waits_at_its_start(
        self, run, deploy, config, durability
    ):
        old = self.reading("price", Priced, deploy(), fails=True)
        with pytest.raises(ConnectionError):
            run.invoke(old, {"price": 7, "log": []}, config, durability=durability)
        renamed = {"price": "total"}
        new = self.reading("total", Totalled, deploy(), fails=False, renamed_keys=renamed)
        result = run.invoke(new, None, config, durability=durability)
        assert result == {"total": 7, "log": [7]}

    def test_of_the_input_are_renamed_in_a_replay(self, run, deploy, config):
        old = self.reading("price", Priced, deploy(), fails=False)
        run.invoke(old, {"price": 7, "log": []}, config)
        renamed = {"price": "total"}
        new = self.reading("total", Totalled, deploy(), fails=False, renamed_keys=renamed)
        first = run.history(new, config)[-1]
        assert first.metadata["writes"] == {"total": 7, "log": []}
        assert run.invoke(new, None, first.config) == {"total": 7, "log": [7]}

    @pytest.mark.parametrize(
        ("sent", "received"),
        [
            (lambda state: state, {"total": 7, "log": []}),
            (lambda state: {"price": 1}, {"total": 1}),
            (lambda state: {"price": 1, "of": "own"}, {"price": 1, "of": "own"}),
            (lambda state: ["price"], ["price"]),
        ],
        ids=["the-state", "a-part", "own-keys", "no-dict"],
    )
    def test_of_a_send_are_renamed_if_all_are_of_the_state(
        self, run, deploy, config, sent, received
    ):
        def sending(schema: Any, **compiled: Any) -> Any:
            def work(given: Any) -> dict[str, Any]:
                interrupt("sure?")
                return {"log": [given]}

            builder = StateGraph(schema).add_node("work", work)
            builder.add_conditional_edges(START, lambda state: [Send("work", sent(state))])
            return builder.compile(checkpointer=deploy(), **compiled)

        run.invoke(sending(Priced), {"price": 7, "log": []}, config)
        new = sending(Totalled, renamed_keys={"price": "total"})
        assert run.invoke(new, Command(resume="yes"), config)["log"] == [received]


def test_of_an_old_and_a_present_key_the_newer_value_counts(run, deploy, config):
    class Both(Priced, Totalled, total=False):
        pass

    old = asking("ask", deploy(), Both)
    run.invoke(old, {"price": 7, "total": 8, "log": []}, config)
    new = asking("ask", deploy(), Totalled, renamed_keys={"price": "total"})
    assert run.get_state(new, config).values["total"] == 8
    run.update_state(asking("ask", deploy(), Both), config, {"price": 9}, as_node="say")
    new = asking("ask", deploy(), Totalled, renamed_keys={"price": "total"})
    assert run.get_state(new, config).values["total"] == 9


def test_a_name_is_free_once_no_thread_waits_under_it(run, deploy, config):
    run.invoke(asking("ask", deploy()), {"log": []}, config)
    saver = deploy()
    new = asking("approve", saver, renamed_nodes={"ask": "approve"})
    assert not dry_run(saver, graph=asking("approve", saver))
    run.invoke(new, Command(resume="yes"), config)
    assert dry_run(saver, graph=asking("approve", saver))


def test_an_update_may_name_a_node_by_its_old_name(run, deploy, config):
    run.invoke(asking("ask", deploy()), {"log": []}, config)
    new = asking("approve", deploy(), renamed_nodes={"ask": "approve"})
    run.update_state(new, config, {"log": ["by hand"]}, as_node="ask")
    assert run.get_state(new, config).next == ("more",)


def two_asking(first: str, second: str, saver: Any, **compiled: Any) -> Any:
    """A node that asks, and another one that asks and that only a Command leads to."""
    builder = StateGraph(State).add_node(first, asks("1?")).add_node(second, asks("2?"))
    return builder.add_edge(START, first).compile(checkpointer=saver, **compiled)


BOTH_RENAMED = {"ask": "ask now", "other": "other now"}


def test_a_node_that_a_command_has_led_to_keeps_its_question(run, deploy, config):
    old = two_asking("ask", "other", deploy())
    run.invoke(old, {"log": []}, config)
    run.invoke(old, Command(goto="other"), config)
    asked = run.get_state(old, config).interrupts
    new = two_asking("ask now", "other now", deploy(), renamed_nodes=BOTH_RENAMED)
    assert run.get_state(new, config).interrupts == asked
    answers = {question.id: question.value.replace("?", "!") for question in asked}
    assert run.invoke(new, Command(resume=answers), config)["log"] == ["1!", "2!"]


@pytest.mark.parametrize("again", ["copy", "replay"])
def test_all_nodes_wait_after_a_command_and_a_copy_or_a_replay(run, deploy, config, again):
    old = two_asking("ask", "other", deploy())
    run.invoke(old, {"log": []}, config)
    run.invoke(old, Command(goto="other"), config)
    if again == "copy":
        run.update_state(old, config, None, as_node="__copy__")
    else:
        run.invoke(old, None, run.get_state(old, config).config)
    with pytest.raises(MissingNodeError, match="'ask'"):
        run.get_state(two_asking("ask now", "other", saver := deploy()), config)
    new = two_asking("ask now", "other now", saver, renamed_nodes=BOTH_RENAMED)
    assert run.get_state(new, config).next == ("ask now", "other now")


@pytest.mark.parametrize("how", ["deferred", "join"])
def test_a_node_that_waits_on_after_an_update_is_missed(run, deploy, config, how):
    def build(name: str, saver: Any, **compiled: Any) -> Any:
        builder = StateGraph(State).add_node("say", says("said")).add_node("other", says("other"))
        builder.add_node(name, asks("sure?"), defer=how == "deferred").add_edge(START, "say")
        builder.add_edge("say" if how == "deferred" else ["say"], name)
        return builder.compile(checkpointer=saver, **compiled)

    old = build("ask", deploy())
    run.invoke(old, {"log": []}, config)
    run.update_state(old, config, {"log": ["by hand"]}, as_node="other")
    assert run.get_state(old, config).next == ("ask",)
    with pytest.raises(MissingNodeError, match="'ask'"):
        run.get_state(build("approve", saver := deploy()), config)
    new = build("approve", saver, renamed_nodes={"ask": "approve"})
    assert run.get_state(new, config).next == ("approve",)


def joined(old: list[Any], writes: list[Any]) -> list[Any]:
    return [*old, *(item for write in writes for item in write)]


def test_a_renamed_delta_channel_keeps_what_only_a_finished_node_wrote_to_it(run, deploy, config):
    def build(key: str, **compiled: Any) -> Any:
        schema = TypedDict(  # type: ignore[misc]
            "schema", {"word": str, key: Annotated[list[Any], DeltaChannel(joined)]}
        )
        builder = StateGraph(schema).add_node("say", lambda _: {key: ["said"]})
        builder.add_node("ask", lambda _: {key: [interrupt("sure?")]})
        builder.add_edge(START, "say").add_edge(START, "ask")
        return builder.compile(checkpointer=deploy(), **compiled)

    run.invoke(build("log"), {"word": "in"}, config)
    run.invoke(build("lines", renamed_keys={"log": "lines"}), Command(resume="yes"), config)
    new = build("lines", renamed_keys={"log": "lines"})
    assert run.get_state(new, config).values["lines"] == ["yes", "said"]


@pytest.mark.parametrize("sends", [False, True])
def test_a_replay_inside_a_graph_finds_it_in_a_renamed_node(run, deploy, config, sends):
    said: list[str] = []

    def say(_state: Any) -> dict[str, Any]:
        said.append("said")
        return {"log": ["said"]}

    def build(outer: str, middle: str, **renamed: dict[str, str]) -> Any:
        inner = StateGraph(State).add_sequence([("say", say), ("ask", asks("sure?"))])
        inner.add_edge(START, "say")
        around = StateGraph(State).add_node(middle, inner.compile()).add_edge(START, middle)
        builder = StateGraph(State).add_node(outer, around.compile(renamed_nodes=renamed.get("in")))
        where = Send(outer, {"log": []}) if sends else outer
        builder.add_conditional_edges(START, lambda _: where, [outer])
        return builder.compile(checkpointer=deploy(), renamed_nodes=renamed.get("out"))

    run.invoke(build("outer", "middle"), {"log": []}, config)
    new = build("outside", "between", **{"out": {"outer": "outside"}, "in": {"middle": "between"}})
    state = run.get_state(new, config, subgraphs=True)
    while state.tasks:
        at, state = state.config, state.tasks[0].state or state._replace(tasks=())
    assert run.invoke(new, None, at)["__interrupt__"][0].value == "sure?"
    assert said == ["said"]
