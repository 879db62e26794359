"""What type checkers see of a program: mypy runs over the small programs below.

A comment `#: text` says that mypy tells one thing about its line, and that `text` is in it. About
all other lines mypy has nothing to say.
"""

import re
import subprocess
import sys
from typing import Any

import pytest

STRICT = "# mypy: disallow-any-generics, disallow-untyped-calls, disallow-untyped-decorators"
STATE = """
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import TypedDict

from milepost.graph import END, START, MessagesState, StateGraph
from milepost.graph.state import CompiledStateGraph
from milepost.pregel import Pregel
from milepost.runtime import Runtime
from milepost.types import Command, RunnableConfig, RunOptions, Send

class State(TypedDict):
    count: int
    name: str

class Part(TypedDict):
    count: int

@dataclass
class User:
    id: str

graph = StateGraph(State, User, output_schema=Part).compile()
full: State = {"count": 1, "name": "x"}
"""

PROGRAMS = {
    "options": """
graph.invoke(full, durability="sync", interrupt_before=["a"], interrupt_after="*")
graph.invoke(full, durability="snyc")  #: durability: Literal['sync', 'async', 'exit'] | None
graph.invoke(full, on_conflict="reject", output_keys="count", control=None)
graph.invoke(full, on_conflict="oldest")  #: No overload variant of "invoke"
graph.invoke(full, interupt_before=["a"])  #: did you mean "interrupt_before"
graph.invoke(full, stream_mode="valeus")  #: Argument "stream_mode" to "invoke"
graph.invoke(full, stream_mode="updates", version="v9")  #: No overload variant of "invoke"
graph.stream(full, stream_mode=["updates", "custom"], subgraphs=True, durability="exit")
graph.stream(full, stream_mode=["updates", "costum"])  #: List item 1 has incompatible type
graph.stream(full, durability="snyc")  #: No overload variant of "stream"
graph.stream(full, durability="snyc", version="v2")  #: No overload variant of "stream"
graph.stream_events(full, durability="snyc", version="v3")  #: No overload variant
graph.stream_events(full, durability="snyc", version="v2")  #: No overload variant
graph.stream_events(full, durability="snyc")  #: No overload variant
graph.stream_events(full, version="v9")  #: No overload variant
graph.batch([full], durability="snyc")  #: Argument "durability" to "batch"
graph.batch([full, None], stream_mode="updates", durability="sync", return_exceptions=True)

async def on_a_loop() -> None:
    await graph.ainvoke(full, durability="snyc")  #: No overload variant of "ainvoke"
    await graph.abatch([full], durability="snyc")  #: Argument "durability" to "abatch"
    graph.astream(full, durability="snyc")  #: No overload variant of "astream"
    graph.astream(full, durability="sync")
    graph.astream_events(full, version="v3", durability="snyc")  #: No overload variant
    graph.astream_events(full, version="v2", durability="snyc")  #: No overload variant
    graph.astream_events(full, version="v1", durability="snyc")  #: No overload variant
    graph.astream_events(full, durability="snyc")  #: No overload variant
    graph.astream_events(full, include_name=["a"])  #: No overload variant
    graph.astream_events(full, include_names=["a"], stream_mode="values", durability="sync")
    graph.astream_events(full, version="v3", include_names=["a"])  #: No overload variant
""",
    "options_of_a_remote_graph": """
from milepost.pregel.remote import RemoteGraph

remote = RemoteGraph("chat", url="http://127.0.0.1:1")
remote.invoke(full, durability="sync", metadata={"a": 1}, multitask_strategy="enqueue")
remote.invoke(full, durability="snyc")  #: Argument "durability" to "invoke"
remote.invoke(full, version="v9")  #: Argument "version" to "invoke"
remote.invoke(full, on_conflict="reject")  #: Unexpected keyword argument "on_conflict"
remote.stream(full, stream_mode="updates", durability="snyc")  #: Argument "durability" to "stream"
remote.stream(full, webhok="http://127.0.0.1:1")  #: did you mean "webhook"
remote.stream_events(full, version="v3", metadata={"a": 1})
remote.stream_events(full, version="v3", durability="sync")  #: Unexpected keyword argument
remote.stream_events(full, version="v9")  #: Argument "version" to "stream_events"

async def on_a_loop() -> None:
    await remote.ainvoke(full, durability="snyc")  #: Argument "durability" to "ainvoke"
    remote.astream(full, durability="snyc")  #: Argument "durability" to "astream"
    await remote.astream_events(full, version="v3", durability="sync")  #: Unexpected keyword
""",
    "options_that_are_passed_on": """
from typing_extensions import Unpack

def call(**options: Unpack[RunOptions]) -> None:
    graph.invoke(full, **options)

def call_any(**options: Any) -> None:
    graph.invoke(full, **options)

call(durability="sync")
call(durability="snyc")  #: Argument "durability" to "call"
""",
    "input_and_context": """
config: RunnableConfig = {"configurable": {"thread_id": "1"}}
graph.invoke({"count": 1, "name": "x"}, config, context=User("u"))
graph.invoke(None, config)
graph.invoke(Command(resume=True), {"configurable": {"thread_id": "1"}})
graph.invoke({"count": "1", "name": "x"})  #: input: State | Command[Any] | None
graph.invoke({"count": 1, "nmae": "x"})  #: input: State | Command[Any] | None
graph.invoke(full, {"configrable": {}})  #: No overload variant of "invoke"
graph.invoke(full, context=3)  #: context: User | None
""",
    # Without a version a result is not the output schema alone: it may have `__interrupt__`, be a
    # list of events, or be the value that `output_keys` names.
    "results": """
result: Part = graph.invoke(full)
count: int = graph.invoke(full, output_keys="count")
reveal_type(graph.invoke(full))  #: "Any"
reveal_type(graph.batch([full]))  #: "list[Any]"
reveal_type(graph.stream(full))  #: "typing.Iterator[Any]"
reveal_type(graph.get_state({}).next)  #: "tuple[str, ...]"
graph.get_state({}, subgraph=True)  #: Unexpected keyword argument "subgraph"
reveal_type(graph.update_state({}, {"count": 2}, as_node="a").get("tags"))  #: "list[str] | None"
graph.update_state({}, {"count": 2}, context=User("u"))
graph.update_state({}, {"count": 2}, context=3)  #: expected "User | None"
graph.update_state({}, {"count": 2}, as_nod="a")  #: Unexpected keyword argument "as_nod"
reveal_type([state.values for state in graph.get_state_history({})])  #: "list[dict[str, Any] | Any]"

async def on_a_loop() -> None:
    reveal_type(await graph.ainvoke(full))  #: "Any"
    reveal_type((await graph.aget_state({})).next)  #: "tuple[str, ...]"
    async for event in graph.astream(full):
        reveal_type(event)  #: "Any"
""",
    "results_of_version_2": """
from milepost.types import GraphOutput

output: GraphOutput[Part] = graph.invoke(full, version="v2", durability="sync")
wrong: GraphOutput[State] = graph.invoke(full, version="v2")  #: Incompatible types in assignment
reveal_type(graph.invoke(full, version="v2").value["count"])  #: "int"
graph.invoke(full, version="v2").value["name"]  #: TypedDict "Part" has no key "name"
reveal_type(graph.invoke(full, version="v2", stream_mode="updates"))  #: "Any"
for part in graph.stream(full, stream_mode=["values", "checkpoints"], version="v2"):
    if part["type"] == "values":
        reveal_type(part["data"]["count"])  #: "int"
        part["data"]["name"]  #: TypedDict "Part" has no key "name"
    elif part["type"] == "checkpoints":
        reveal_type(part["data"]["values"]["name"])  #: "str"
reveal_type(graph.stream_events(full, version="v3"))  #: "milepost.stream.run_stream.GraphRunStream"

async def on_a_loop() -> None:
    reveal_type((await graph.ainvoke(full, version="v2")).value["count"])  #: "int"
    async for part in graph.astream(full, version="v2"):
        if part["type"] == "values":
            reveal_type(part["data"]["count"])  #: "int"
    async for event in graph.astream_events(full):
        reveal_type(event)  #: "Any"
    run = await graph.astream_events(full, version="v3")
    reveal_type(run)  #: "milepost.stream.run_stream.AsyncGraphRunStream"
""",
    "type_parameters": """
plain: CompiledStateGraph[State] = StateGraph(State).compile()
whole: CompiledStateGraph[State, User, State, Part] = graph
graph.builder.add_node("a", lambda state: {"count": state["count"] + 1})
wrong: CompiledStateGraph[Part] = StateGraph(State).compile()  #: Incompatible types in assignment
any_graph: CompiledStateGraph = graph
any_graph = plain
any_pregel: Pregel = graph
any_builder: StateGraph = StateGraph(State, User)
without: CompiledStateGraph[State, None] = StateGraph(State).compile()
plain.invoke(full, context=None)
other: CompiledStateGraph[State, None, State, Part] = graph  #: Incompatible types in assignment

def build() -> CompiledStateGraph:
    return StateGraph(State, User).compile()

StateGraph(State, input_schema=Part).compile().invoke({"count": 1})
StateGraph(MessagesState).compile().invoke({"messages": [{"role": "user", "content": "hi"}]})
""",
    "nodes": """
def good(state: State) -> Part:
    return {"count": state["count"]}

async def with_all(state: State, config: RunnableConfig, runtime: Runtime[User]) -> Command[Literal["b"]]:
    return Command(goto="b")

def other_schema(state: Part) -> dict[str, Any]:
    return {}

def any_dict(state: dict[str, Any]) -> dict[str, Any]:
    return {}

def of_dataclass(state: User) -> None: ...

def of_number(state: int) -> dict[str, Any]:
    return {}

def nothing() -> dict[str, Any]:
    return {}

def route(state: State) -> Literal["a", "b"]:
    return "a"

def fan_out(state: State) -> list[Send] | str:
    return [Send("a", state)]

def to_dict(state: State) -> dict[str, Any]:
    return {}

builder = StateGraph(State)
builder.add_node(good).add_node("b", with_all, defer=True).add_node("c", other_schema)
builder.add_node(any_dict).add_node(of_dataclass).add_node("d", lambda state: {"count": state["count"]})
builder.add_node("inner", StateGraph(Part).compile())
builder.add_node("e", other_schema, input_schema=Part)
builder.add_node("e", of_dataclass, input_schema=Part)  #: Argument 2 to "add_node"
builder.add_node("e", of_number)  #: cannot be "int"
builder.add_node("e", nothing)  #: Argument 2 to "add_node"
builder.add_node("e", 5)  #: Argument 2 to "add_node"
builder.add_sequence([good, ("b", other_schema), any_dict])
builder.add_conditional_edges("a", route).add_conditional_edges("a", fan_out, ["a", END])
builder.add_conditional_edges("a", to_dict)  #: Argument 2 to "add_conditional_edges"
StateGraph(int).add_node("e", of_number)
""",
    "functions": """
from milepost.func import entrypoint, task

@task
def length(text: str) -> int:
    return len(text)

@task(name="slow")
async def slow(text: str) -> int:
    return len(text)

@entrypoint()
def program(text: str) -> int:
    reveal_type(slow(text))  #: TaskFuture[int]
    return length(text).result()

length(3)  #: expected "str"
slow(3)  #: expected "str"
program.invoke("text", durability="snyc")  #: No overload variant of "invoke"
""",
}
UNTYPED = """
from typing import TypedDict

from milepost.checkpoint.memory import InMemorySaver
from milepost.func import entrypoint, task
from milepost.graph import END, START, StateGraph

class State(TypedDict, total=False):
    count: int

def add(state):
    return {"count": state["count"] + 1}

def routed(state, config, *, store):
    return "add"

builder = StateGraph(dict)
builder.add_node(add)
builder.add_node("again", add)
builder.add_edge(START, "add")
builder.add_conditional_edges("add", routed)
builder.add_conditional_edges("again", lambda state: END, {END: END})
graph = builder.compile(checkpointer=InMemorySaver())
result = graph.invoke({"count": 1}, {"configurable": {"thread_id": "1"}}, durability="sync")
print(result["count"], result["__interrupt__"])
for mode, event in graph.stream({"count": 1}, stream_mode=["updates", "custom"]):
    print(event["add"])

typed = StateGraph(State).add_node(add).add_edge(START, "add").compile()
print(typed.invoke({"count": 1})["count"], typed.invoke({})["anything"])
print(typed.get_state({"configurable": {"thread_id": "1"}}).values["count"])

def call(graph, options):
    return graph.invoke({}, **options)

@task
def square(number):
    return number * number

@entrypoint(checkpointer=InMemorySaver())
def program(number):
    return square(number).result()

print(program.invoke(3) + 1)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What mypy says of each program: the messages by line. One process takes them all."""
    folder = tmp_path_factory.mktemp("programs")
    programs = {name: f"{STRICT}\n{STATE}{text}" for name, text in PROGRAMS.items()}
    programs["untyped"] = UNTYPED
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    options = [
        "--config-file=",
        "--no-error-summary",
        "--no-pretty",
        "--check-untyped-defs",
        f"--cache-dir={folder / 'cache'}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *(f"{name}.py" for name in programs)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
    )
    assert done.stderr == ""
    found: dict[str, Any] = {name: (text, {}) for name, text in programs.items()}
    for line in done.stdout.splitlines():
        match = re.fullmatch(r"(\w+)\.py:(\d+): (error|note): (.*)", line)
        assert match is not None, line
        messages = found[match[1]][1].setdefault(int(match[2]), [])
        is_new = match[3] == "error" or match[4].startswith("Revealed")
        if is_new and not (messages and match[4].startswith("No overload variant")):
            messages.append(match[4])
        else:  # it explains the error before it
            messages[-1] += f" {match[4]}"
    return found


@pytest.mark.parametrize("name", [*PROGRAMS, "untyped"])
def test_mypy_tells_what_is_wrong_in_a_program_and_nothing_else(
    name: str, told: dict[str, Any]
) -> None:
    text, messages = told[name]
    expected = {
        number: line.partition("#: ")[2]
        for number, line in enumerate(text.splitlines(), 1)
        if "#: " in line
    }
    assert messages.keys() == expected.keys(), messages
    for number, part in expected.items():
        assert len(messages[number]) == 1, messages[number]
        assert part in messages[number][0]
