"""Programs that are run on both libraries with a handler that writes down what it is told.

A story is a generator-free function of a library and a harness; it gives the recorder to the graph
in its config. What the recorder has heard is made comparable: run ids become places in the order of
starts, ids of tasks and checkpoints become a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from stories import Log, line, says

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_APART = re.compile(r", response_schema=None|graph='around:ID', ")
"""What the libraries write differently: a field of Interrupt, and who a command has reached."""
_FRAMEWORK = ("lc_versions", "ls_", "langgraph_version")


def plain(value: Any) -> Any:
    """A value without ids, and without the library that its class comes from."""
    if isinstance(value, BaseException):
        return (type(value).__name__, [plain(a) for a in value.args])
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return _ID.sub("ID", value)
    return _APART.sub("", _ID.sub("ID", repr(value)))


class Heard:
    """What a handler was told, run by run."""

    def __init__(self) -> None:
        self.runs: dict[UUID, dict[str, Any]] = {}
        self.open: list[UUID] = []

    def start(self, kind: str, payload: Any, run_id: UUID, rest: dict[str, Any]) -> None:
        metadata = rest.get("metadata") or {}
        self.runs[run_id] = {
            "kind": kind,
            "name": rest.get("name"),
            "inputs": plain(payload),
            "tags": sorted(rest.get("tags") or ()),
            "metadata": {
                k: plain(v) for k, v in sorted(metadata.items()) if not k.startswith(_FRAMEWORK)
            },
            "parent": rest.get("parent_run_id"),
            "outcome": None,
        }

    def end(self, how: str, payload: Any, run_id: UUID) -> None:
        assert self.runs[run_id]["outcome"] is None, "a run ended twice"
        self.runs[run_id]["outcome"] = (how, plain(payload))

    def tree(self, parent: UUID | None = None) -> list[Any]:
        """The runs below one, each with those below it; siblings that ran at once are sorted."""
        found = []
        for run_id, run in self.runs.items():
            if run["parent"] == parent:
                shown = {k: v for k, v in run.items() if k != "parent"}
                found.append({**shown, "children": self.tree(run_id)})
        return sorted(
            found, key=lambda r: (r["metadata"].get("langgraph_step", 0), repr(r["name"]), repr(r))
        )

    def whole(self) -> list[Any]:
        """The tree of all runs; a run whose parent was never told of is a mistake."""
        unknown = {r["parent"] for r in self.runs.values()} - set(self.runs) - {None}
        assert not unknown, f"parents that did not start: {unknown}"
        return self.tree()


class Recorder(BaseCallbackHandler):
    """Hears everything, in sync code."""

    run_inline = True

    def __init__(self) -> None:
        self.heard = Heard()

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **rest: Any) -> None:
        self.heard.start("chain", inputs, run_id, rest)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **rest: Any) -> None:
        self.heard.end("end", outputs, run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        self.heard.end("error", error, run_id)

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, **rest: Any
    ) -> None:
        self.heard.start("model", [m.content for m in messages[0]], run_id, rest)

    def on_llm_end(self, response: Any, *, run_id: UUID, **rest: Any) -> None:
        self.heard.end("end", response.generations[0][0].text, run_id)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **rest: Any) -> None:
        self.heard.start("tool", input_str, run_id, rest)

    def on_tool_end(self, output: Any, *, run_id: UUID, **rest: Any) -> None:
        self.heard.end("end", str(output), run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        self.heard.end("error", error, run_id)


class AsyncRecorder(AsyncCallbackHandler):
    """The same on a loop: every method has to be awaited."""

    def __init__(self) -> None:
        self.heard = Heard()


def _awaited(name: str) -> Callable[..., Any]:
    usual = getattr(Recorder, name)

    async def method(self: AsyncRecorder, *given: Any, **named: Any) -> None:
        usual(self, *given, **named)

    return method


for _name in [n for n in vars(Recorder) if n.startswith("on_")]:
    setattr(AsyncRecorder, _name, _awaited(_name))


STORIES: dict[str, Callable[[Any, Any, Any], None]] = {}


def story(tell: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    STORIES[tell.__name__] = tell
    return tell


def config(recorder: Any, thread: str | None = "t", **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"callbacks": [recorder], **more}
    if thread is not None:
        given["configurable"] = {"thread_id": thread}
    return given


def caught(run: Any, graph: Any, input: Any, config: Any) -> None:
    """Run a graph that may fail: what counts is what the handlers hear."""
    try:
        run.invoke(graph, input, config)
    except Exception:
        return


@story
def a_line(lib: Any, run: Any, recorder: Any) -> None:
    builder = lib.StateGraph(Log)
    builder.add_node("a", says("a"), metadata={"mine": 1})
    builder.add_node("b", says("b"))
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    graph = builder.compile(name="the line")
    run.invoke(
        graph,
        {"log": []},
        config(recorder, None, tags=["tagged"], metadata={"who": "me"}, run_name="named"),
    )
    run.invoke(graph, {"log": []}, config(recorder, None))


@story
def parallel_tasks(lib: Any, run: Any, recorder: Any) -> None:
    builder = lib.StateGraph(Log)
    for name in "abc":
        builder.add_node(name, says(name))
        builder.add_edge(lib.START, name)
    builder.add_node("join", says("join"))
    builder.add_edge(list("abc"), "join")
    graph = builder.compile(checkpointer=lib.InMemorySaver())
    run.invoke(graph, {"log": []}, config(recorder))


@story
def sends_and_branches(lib: Any, run: Any, recorder: Any) -> None:
    def spread(state: Any) -> Any:
        return [lib.Send("work", {"x": n}) for n in range(2)]

    def onward(state: Any) -> Any:
        return "last"

    builder = lib.StateGraph(Log)
    builder.add_node("first", says("first"))
    builder.add_node("work", lambda arg: {"log": [arg["x"]]})
    builder.add_node("last", says("last"))
    builder.add_edge(lib.START, "first")
    builder.add_conditional_edges("first", spread, ["work"])
    builder.add_conditional_edges("work", onward, ["last"])
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))


@story
def a_branch_from_the_start(lib: Any, run: Any, recorder: Any) -> None:
    def choose(state: Any) -> Any:
        return "a"

    async def achoose(state: Any) -> Any:
        return "a"

    builder = lib.StateGraph(Log)
    builder.add_node("a", says("a"))
    is_async = run.colour == "async"
    builder.add_conditional_edges(lib.START, achoose if is_async else choose, ["a"])
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))


@story
def a_branch_that_is_a_runnable(lib: Any, run: Any, recorder: Any) -> None:
    def choose(state: Any) -> Any:
        return "b"

    builder = lib.StateGraph(Log)
    builder.add_node("a", says("a")).add_node("b", says("b")).add_edge(lib.START, "a")
    builder.add_conditional_edges("a", RunnableLambda(choose).with_config(tags=["mine"]), ["b"])
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))


@story
def a_command(lib: Any, run: Any, recorder: Any) -> None:
    builder = lib.StateGraph(Log)
    builder.add_node("a", lambda s: lib.Command(update={"log": ["a"]}, goto="b"))
    builder.add_node("b", says("b"))
    builder.add_edge(lib.START, "a")
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))


@story
def a_graph_inside(lib: Any, run: Any, recorder: Any) -> None:
    compiled = line(lib, says("deep")).compile(name="inner")

    def calls(state: Any) -> Any:
        return {"log": compiled.invoke({"log": []})["log"]}

    async def acalls(state: Any) -> Any:
        return {"log": (await compiled.ainvoke({"log": []}))["log"]}

    call = acalls if run.colour == "async" else calls
    builder = line(lib, ("node", compiled), ("call", call))
    graph = builder.compile(checkpointer=lib.InMemorySaver())
    run.invoke(graph, {"log": []}, config(recorder))


@story
def a_retry(lib: Any, run: Any, recorder: Any) -> None:
    tries: list[int] = []

    def flaky(state: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("not yet")
        return {"log": ["at last"]}

    builder = lib.StateGraph(Log)
    policy = lib.RetryPolicy(initial_interval=0.001, jitter=False)
    builder.add_node("flaky", flaky, retry_policy=policy)
    builder.add_edge(lib.START, "flaky")
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))


@story
def an_error(lib: Any, run: Any, recorder: Any) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("broken")

    graph = line(lib, ("around", line(lib, bad).compile())).compile()
    caught(run, graph, {"log": []}, config(recorder, None))


@story
def an_interrupt_and_its_resume(lib: Any, run: Any, recorder: Any) -> None:
    def ask(state: Any) -> Any:
        return {"log": [lib.interrupt("well?")]}

    builder = lib.StateGraph(Log)
    builder.add_node("ask", ask)
    builder.add_node("other", says("other"))
    builder.add_edge(lib.START, "ask")
    builder.add_edge(lib.START, "other")
    graph = builder.compile(checkpointer=lib.InMemorySaver())
    run.invoke(graph, {"log": []}, config(recorder))
    run.invoke(graph, lib.Command(resume="yes"), config(recorder))


@story
def an_interrupt_inside(lib: Any, run: Any, recorder: Any) -> None:
    def ask(state: Any) -> Any:
        return {"log": [lib.interrupt("well?")]}

    builder = line(lib, ("around", line(lib, ask).compile()))
    graph = builder.compile(checkpointer=lib.InMemorySaver())
    run.invoke(graph, {"log": []}, config(recorder))
    run.invoke(graph, lib.Command(resume="yes"), config(recorder))


@story
def a_breakpoint(lib: Any, run: Any, recorder: Any) -> None:
    builder = line(lib, says("a"), says("b"))
    graph = builder.compile(checkpointer=lib.InMemorySaver(), interrupt_before=["b"])
    run.invoke(graph, {"log": []}, config(recorder))
    run.invoke(graph, None, config(recorder))


@story
def an_entrypoint(lib: Any, run: Any, recorder: Any) -> None:
    if run.colour == "async":

        @lib.task
        async def double(n: int, *, plus: int = 0) -> int:
            return 2 * n + plus

        @lib.entrypoint(checkpointer=lib.InMemorySaver())
        async def program(n: int) -> int:
            return await double(n, plus=1) + await double(n)
    else:

        @lib.task
        def double(n: int, *, plus: int = 0) -> int:
            return 2 * n + plus

        @lib.entrypoint(checkpointer=lib.InMemorySaver())
        def program(n: int) -> int:
            return double(n, plus=1).result() + double(n).result()

    run.invoke(program, 3, config(recorder))


@story
def branches_after_edges(lib: Any, run: Any, recorder: Any) -> None:
    model = FakeListChatModel(responses=["c"])

    def one(state: Any) -> Any:
        return model.invoke("where?").content

    def two(state: Any) -> Any:
        return lib.END

    def bad(state: Any) -> Any:
        raise ValueError("no way")

    builder = lib.StateGraph(Log)
    for name in "abc":
        builder.add_node(name, says(name))
    builder.add_edge(lib.START, "a")
    builder.add_edge("a", "b")
    builder.add_conditional_edges("a", one, ["c"])
    builder.add_conditional_edges("a", two)
    builder.add_conditional_edges("c", bad)
    caught(run, builder.compile(), {"log": []}, config(recorder, None))


@story
def a_graph_in_a_chain(lib: Any, run: Any, recorder: Any) -> None:
    graph = line(lib, says("deep")).compile(name="inner")

    def call(given: Any) -> Any:
        return graph.invoke(given)

    async def acall(given: Any) -> Any:
        return await graph.ainvoke(given)

    chain = RunnableLambda(acall if run.colour == "async" else call, name="outer")
    run.invoke(chain, {"log": []}, config(recorder, "mine", tags=["t"], metadata={"m": 1}))
    builder = line(lib, ("node", lambda s: {"log": []}), ("chained", chain))
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))


@story
def models_and_tools(lib: Any, run: Any, recorder: Any) -> None:
    model = FakeListChatModel(responses=["hello"])

    @tool
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    def talk(state: Any) -> Any:
        said = model.invoke("hi").content
        return {"log": [shout.invoke({"text": said})]}

    async def atalk(state: Any) -> Any:
        said = (await model.ainvoke("hi")).content
        return {"log": [await shout.ainvoke({"text": said})]}

    def given(state: Any, config: Any) -> Any:
        return {"log": [model.invoke("hi", config).content]}

    builder = line(
        lib,
        ("talk", atalk if run.colour == "async" else talk),
        ("chain", RunnableLambda(lambda s: s["log"][-1]) | (lambda t: {"log": [t]})),
        ("single", RunnableLambda(lambda s: {"log": ["single"]})),
    )
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))


@story
def with_config(lib: Any, run: Any, recorder: Any) -> None:
    graph = (
        line(lib, says("a"))
        .compile()
        .with_config(callbacks=[recorder], tags=["bound"], metadata={"k": "v"}, run_name="bound")
    )
    run.invoke(graph, {"log": []}, {"tags": ["called"]})
    run.invoke(graph, {"log": []}, {"callbacks": [Recorder()], "metadata": {"l": "w"}})


@story
def an_error_handler(lib: Any, run: Any, recorder: Any) -> None:
    def bad(state: Any) -> Any:
        raise ValueError("broken")

    def repair(state: Any) -> Any:
        return {"log": ["repaired"]}

    builder = lib.StateGraph(Log)
    builder.add_node("bad", bad, error_handler=repair)
    builder.add_edge(lib.START, "bad")
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))


@story
def a_command_to_the_parent(lib: Any, run: Any, recorder: Any) -> None:
    def up(state: Any) -> Any:
        return lib.Command(graph=lib.Command.PARENT, update={"log": ["up"]}, goto="after")

    builder = line(lib, ("around", line(lib, up).compile()))
    builder.add_node("after", says("after"))
    run.invoke(builder.compile(), {"log": []}, config(recorder, None))
