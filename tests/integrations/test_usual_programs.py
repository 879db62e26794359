"""Programs of the kinds that people write with LangGraph: what they end with, and what they stream,
is the same on both libraries."""

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from libraries import LANGGRAPH, MILEPOST
from typing_extensions import TypedDict

T: Any = {"configurable": {"thread_id": "1"}}
_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_GIVEN = re.compile(r"id='<id>', ")


def shown(events: Iterable[Any]) -> list[str]:
    """Events as text, without ids that a library has given: they may come later than the event."""
    return [_GIVEN.sub("", _ID.sub("<id>", repr(event))) for event in events]


def state_of(graph: Any) -> Any:
    state = graph.get_state(T)
    waiting = [[one.value for one in task.interrupts] for task in state.tasks]
    return shown([state.values]), state.next, waiting, state.metadata["step"]


def call(name: str, arguments: dict[str, Any], id: str) -> AIMessage:
    return AIMessage("", id=f"ai-{id}", tool_calls=[{"name": name, "args": arguments, "id": id}])


@tool
def look_up(flight: str) -> str:
    """Look a flight up."""
    return f"{flight} is late"


@tool
def cancel(ticket: int) -> str:
    """Cancel a ticket."""
    if ticket == 0:
        raise ValueError("there is no such ticket")
    return f"cancelled {ticket}"


def stacked(stack: list[str], change: str | None) -> list[str]:
    return stack[:-1] if change == "pop" else stack if change is None else [*stack, change]


def support_desk(lib: Any) -> Any:
    """Safe tools run, others wait for a person, who corrects the call; one that fails is told."""

    class State(TypedDict):
        messages: Annotated[list[AnyMessage], lib.add_messages]
        desk: Annotated[list[str], stacked]

    said = [
        call("look_up", {"flight": "LH1"}, "c1"),
        call("cancel", {"ticket": 5}, "c2"),
        AIMessage("done", id="ai-3"),
    ]
    model = GenericFakeChatModel(messages=iter(said))

    def failed(state: Any) -> Any:
        text = f"failed: {state['error']!r}"
        calls = state["messages"][-1].tool_calls
        return {"messages": [ToolMessage(text, tool_call_id=one["id"]) for one in calls]}

    def tools(*given: Any) -> Any:
        node = lib.ToolNode(list(given), handle_tool_errors=False)
        return node.with_fallbacks([RunnableLambda(failed)], exception_key="error")

    def route(state: Any) -> str:
        if lib.tools_condition(state) == lib.END:
            return str(lib.END)
        return "risky" if state["messages"][-1].tool_calls[0]["name"] == "cancel" else "safe"

    builder = lib.StateGraph(State)
    builder.add_node("model", lambda state: {"messages": model.invoke(state["messages"])})
    builder.add_node("safe", tools(look_up)).add_node("risky", tools(cancel))
    builder.add_node("hello", lambda _: {"desk": "front"})
    builder.add_edge(lib.START, "hello").add_edge("hello", "model")
    builder.add_conditional_edges("model", route, ["safe", "risky", lib.END])
    builder.add_edge("safe", "model").add_edge("risky", "model")
    graph = builder.compile(checkpointer=lib.InMemorySaver(), interrupt_before=["risky"])

    first = shown(graph.stream({"messages": [HumanMessage("hi", id="h")]}, T))
    before = state_of(graph)
    graph.update_state(T, {"messages": [call("cancel", {"ticket": 0}, "c2")]})
    edited = state_of(graph)
    rest = shown(graph.stream(None, T, stream_mode="updates"))
    return first, before, edited, rest, state_of(graph)


def research_team(lib: Any) -> Any:
    """A graph with its own state for each topic, whose notes come together in a deferred node."""

    class Notes(TypedDict):
        notes: Annotated[list[str], operator.add]

    class Topic(Notes):
        topic: str
        depth: int

    class State(Notes):
        report: str

    def search(state: Any, runtime: Any) -> Any:
        runtime.stream_writer({"searching": state["topic"]})
        depth = state.get("depth", 0)
        return {"depth": depth + 1, "notes": [f"{state['topic']}{depth}"]}

    search.__annotations__ = {"runtime": lib.Runtime}
    inner = lib.StateGraph(Topic, output_schema=Notes).add_node("search", search)
    inner.add_edge(lib.START, "search")
    inner.add_conditional_edges(
        "search", lambda state: "search" if state["depth"] < 2 else lib.END, ["search", lib.END]
    )
    builder = lib.StateGraph(State)
    builder.add_node("plan", lambda _: {}).add_node("research", inner.compile())
    builder.add_node("check", lambda _: {"notes": ["checked"]})
    builder.add_node(
        "write", lambda state: {"report": " ".join(sorted(state["notes"]))}, defer=True
    )
    builder.add_edge(lib.START, "plan").add_edge("plan", "check").add_edge("check", "write")
    builder.add_conditional_edges(
        "plan", lambda _: [lib.Send("research", {"topic": one}) for one in "xyz"], ["research"]
    )
    builder.add_edge("research", "write")
    graph = builder.compile()
    told = shown(graph.stream({"notes": []}, stream_mode=["updates", "custom"], subgraphs=True))
    return sorted(told), told[-1], graph.invoke({"notes": []})["report"]


def essay(lib: Any) -> Any:
    """Functions as a program: tasks, two questions, what the last run has saved, a store."""
    written: list[str] = []

    @lib.task
    def write(topic: str) -> str:
        written.append(topic)
        return f"an essay on {topic}"

    @lib.entrypoint(checkpointer=lib.InMemorySaver(), store=lib.InMemoryStore())
    def program(topic: str, *, previous: Any = None, store, writer) -> Any:
        writer({"begins": topic})
        text = write(topic).result()
        approved = lib.interrupt({"text": text})
        store.put(("essays",), topic, {"approved": approved})
        sure = lib.interrupt("sure?")
        kept = [item.key for item in store.search(("essays",))]
        return lib.entrypoint.final(
            value=[text, approved, sure, kept, previous], save=(previous or 0) + 1
        )

    inputs = ["cats", lib.Command(resume=True), lib.Command(resume="yes"), "dogs"]
    modes = ["updates", "custom"]
    told = [shown(program.stream(one, T, stream_mode=modes)) for one in inputs]
    return [_without_question_ids(one) for one in told], written, state_of(program)[2]


def _without_question_ids(events: list[str]) -> list[str]:
    return [re.sub(r"id='[0-9a-f<>id]+'", "id", event) for event in events]


@dataclass
class Who:
    name: str = "nobody"


def remembering_chat(lib: Any) -> Any:
    """A chat with memory across threads, found by meaning, which forgets its oldest messages."""
    store = lib.InMemoryStore(
        index={
            "dims": 3,
            "embed": lambda texts: [[float(t.count(c)) for c in "abc"] for t in texts],
        }
    )

    class State(lib.MessagesState):  # type: ignore[name-defined,misc]
        summary: str

    def chat(state: Any, runtime: Any) -> Any:
        place = ("memories", runtime.context.name)
        last = state["messages"][-1].content
        found = runtime.store.search(place, query=last, limit=2)
        runtime.store.put(place, last, {"text": last})
        said = ",".join(item.value["text"] for item in found)
        return {"messages": [AIMessage(said, id=f"a-{last}")]}

    chat.__annotations__ = {"runtime": lib.Runtime}

    def forget(state: Any) -> Any:
        old = [RemoveMessage(id=message.id) for message in state["messages"][:-2]]
        return {"summary": (state.get("summary") or "") + "s", "messages": old}

    builder = lib.StateGraph(State, context_schema=Who)
    builder.add_node("chat", chat).add_node("forget", forget).add_edge(lib.START, "chat")
    builder.add_conditional_edges(
        "chat", lambda state: "forget" if len(state["messages"]) > 4 else lib.END
    )
    graph = builder.compile(checkpointer=lib.InMemorySaver(), store=store)
    seen = []
    for text in ("aaa", "bbb", "ab", "ccc"):
        given = {"messages": [HumanMessage(text, id=text)]}
        answer = graph.invoke(given, T, context=Who("me"))
        seen.append([(message.id, message.content) for message in answer["messages"]])
    as_dict = graph.invoke(
        {"messages": [HumanMessage("a", id="z")]},
        {"configurable": {"thread_id": "2"}},
        context={"name": "me"},
    )
    return seen, as_dict["messages"][-1].content, state_of(graph), len(store.search(("memories",)))


@pytest.mark.parametrize(
    "program",
    [support_desk, research_team, essay, remembering_chat],
    ids=lambda program: program.__name__,
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_usual_program_ends_and_streams_alike_on_both_libraries(program: Any) -> None:
    assert program(MILEPOST) == program(LANGGRAPH)
