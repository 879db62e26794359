"""ToolNode does what LangGraph's does: each case runs on both libraries and is compared."""

import asyncio
from typing import Annotated, Any

import pytest
from fake_models import called, calling, prebuilt_of, shown
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from pydantic import BaseModel

OURS, THEIRS = prebuilt_of("milepost"), prebuilt_of("langgraph")


def outcome(lib: Any, node: Any, given: Any, *, aio: bool = False, store: Any = None) -> Any:
    """What a node returns or raises outside a run, as plain values."""
    config = {"configurable": {"__pregel_runtime": lib.Runtime(store=store)}}
    try:
        found = asyncio.run(node.ainvoke(given, config)) if aio else node.invoke(given, config)
    except Exception as error:
        return type(error).__name__
    return shown(found)


def same(make: Any, given: Any, **options: Any) -> Any:
    """The outcome on both libraries, if they agree in both colours."""
    wanted = outcome(THEIRS, make(THEIRS), given, **options)
    assert outcome(OURS, make(OURS), given, **options) == wanted
    assert outcome(OURS, make(OURS), given, aio=True, **options) == wanted
    return wanted


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def fail(kind: str) -> str:
    """Fail."""
    raise {"value": ValueError, "type": TypeError, "tool": ToolException}[kind]("broken")


@pytest.mark.parametrize(
    "given",
    [
        {"messages": [calling(("add", {"a": 1, "b": 2}, "1"), ("add", {"a": 3, "b": 4}, "2"))]},
        [calling(("add", {"a": 1, "b": 2}, "1"))],
        [called("add", {"a": 1, "b": 2}, "1")],
        {"__type": "tool_call_with_context", "state": {}, "tool_call": called("add", {}, "1")},
        {"messages": [calling(("nothing", {}, "1"))]},
        {"messages": [calling(("add", {"a": "x"}, "1"))]},
        {"messages": [calling()]},
        {"messages": [calling(("add", {"a": 1, "b": 2}, "1")), ToolMessage("x", tool_call_id="0")]},
        {"messages": []},
        {"other": 1},
        {"messages": [ToolMessage("x", tool_call_id="1")]},
    ],
)
def test_inputs_of_all_forms_give_the_same(given):
    assert same(lambda lib: lib.ToolNode([add]), given)


def only_value_errors(error: ValueError) -> str:
    return f"told: {error}"


def two_kinds(error: ValueError | ToolException) -> str:
    return f"told: {error}"


def of_no_error(error: int) -> str:
    return "?"


@pytest.mark.parametrize("kind", ["value", "type", "tool"])
@pytest.mark.parametrize(
    "policy",
    [
        *(True, False, "sorry", ValueError, (ValueError, TypeError)),
        *(only_value_errors, two_kinds, of_no_error, lambda error: "all"),
    ],
)
def test_errors_are_handled_alike(kind, policy):
    given = {"messages": [calling(("fail", {"kind": kind}, "1"))]}
    assert same(lambda lib: lib.ToolNode([fail], handle_tool_errors=policy), given)


def test_the_default_tells_a_model_of_wrong_arguments_only():
    make = lambda lib: lib.ToolNode([add, fail])  # noqa: E731
    ((*_, status),) = same(make, [calling(("add", {"a": "x", "b": 1}, "1"))])
    assert status == "error"
    assert same(make, [calling(("fail", {"kind": "value"}, "1"))]) == "ValueError"


@pytest.mark.parametrize(
    "value", ["text", 1, {"ä": [1]}, [1, "two"], [{"type": "text", "text": "x"}], object, None]
)
def test_the_content_of_a_message_is_the_same(value):
    assert OURS.msg_content_output(value) == THEIRS.msg_content_output(value)

    def give() -> Any:
        """Give."""
        return value

    assert same(lambda lib: lib.ToolNode([give]), [calling(("give", {}, "1"))])


class State(BaseModel):
    messages: list
    user: str


def state_tools(lib: Any) -> list[Any]:
    @tool
    def whole(x: int, state: Annotated[Any, lib.InjectedState]) -> str:
        """Whole."""
        return f"{x} {type(state).__name__}"

    @tool
    def part(user: Annotated[str, lib.InjectedState("user")]) -> str:
        """Part."""
        return user

    @tool
    def optional(lost: Annotated[str, lib.InjectedState("lost")] = "default") -> str:
        """Optional."""
        return lost

    @tool
    def missing(lost: Annotated[str, lib.InjectedState("lost")]) -> str:
        """Missing."""
        return lost

    @tool
    def stored(store: Annotated[Any, lib.InjectedStore()]) -> str:
        """Stored."""
        return type(store).__name__

    @tool
    def running(runtime: lib.ToolRuntime, id: Annotated[str, InjectedToolCallId]) -> str:
        """Running."""
        return f"{runtime.tool_call_id} {id} {len(runtime.tools)} {runtime.context}"

    return [whole, part, optional, missing, stored, running]


@pytest.mark.filterwarnings("ignore:Pydantic serializer")  # LangGraph's ToolRuntime wants a dict
@pytest.mark.parametrize("form", ["dict", "pydantic", "list"])
@pytest.mark.parametrize("name", ["whole", "part", "optional", "missing", "stored", "running"])
@pytest.mark.parametrize("forged", [{}, {"user": "me", "state": 1, "store": 2, "runtime": 3}])
def test_what_is_injected_is_the_same(form, name, forged):
    message = calling((name, {"x": 7, **forged}, "1"))
    given: Any = [message]
    if form == "dict":
        given = {"messages": [message], "user": "someone"}
    elif form == "pydantic":
        given = State(messages=[message], user="someone")
    for lib_store in (None, "store"):
        results = [
            outcome(
                lib,
                lib.ToolNode(state_tools(lib)),
                given,
                store=lib.InMemoryStore() if lib_store else None,
            )
            for lib in (OURS, THEIRS)
        ]
        assert results[0] == results[1]


def command_tools(lib: Any) -> list[Any]:
    command, send = lib.Command, lib.Send

    @tool
    def answered(id: Annotated[str, InjectedToolCallId]) -> Any:
        """Answered."""
        return command(update={"messages": [ToolMessage("ok", tool_call_id=id)]}, goto="x")

    @tool
    def unanswered() -> Any:
        """Unanswered."""
        return command(update={"messages": []})

    @tool
    def up(id: Annotated[str, InjectedToolCallId]) -> Any:
        """Up."""
        return command(graph=command.PARENT, goto=[send("x", {"from": id})])

    @tool
    def bare() -> Any:
        """Bare."""
        return command(goto="x")

    @tool
    def emptied() -> Any:
        """Emptied."""
        return command(update={"messages": [RemoveMessage(id="__remove_all__")]})

    @tool
    def several(id: Annotated[str, InjectedToolCallId]) -> Any:
        """Several."""
        return [command(update={"user": "x"}), ToolMessage("ok", tool_call_id=id)]

    @tool
    def too_many(id: Annotated[str, InjectedToolCallId]) -> Any:
        """Too many."""
        return [ToolMessage("ok", tool_call_id=id), ToolMessage("ok", tool_call_id=id)]

    return [add, answered, unanswered, up, bare, emptied, several, too_many]


@pytest.mark.parametrize(
    "names",
    [
        *(["answered"], ["unanswered"], ["up"], ["up", "up"], ["bare"], ["emptied"], ["several"]),
        *(["too_many"], ["add", "answered"], ["add", "up", "bare", "up"]),
    ],
)
@pytest.mark.parametrize("form", ["dict", "list"])
def test_commands_of_tools_come_out_alike(names, form):
    calls = [
        (name, {"a": 1, "b": 2} if name == "add" else {}, str(i)) for i, name in enumerate(names)
    ]
    given: Any = [calling(*calls)]
    assert same(
        lambda lib: lib.ToolNode(command_tools(lib)),
        {"messages": given} if form == "dict" else given,
    )


@pytest.mark.parametrize(
    "wrap",
    [
        lambda request, execute: execute(request),
        lambda request, execute: ToolMessage("instead", tool_call_id=request.tool_call["id"]),
        lambda request, execute: execute(
            request.override(tool_call={**request.tool_call, "args": {"a": 5, "b": 5}})
        ),
        lambda request, execute: [execute(request), execute(request)][-1],
        lambda request, execute: 1 / 0,
    ],
)
@pytest.mark.parametrize("handle", [True, False])
@pytest.mark.parametrize("name", ["add", "nothing"])
def test_wrapped_calls_come_out_alike(wrap, handle, name):
    given = {"messages": [calling((name, {"a": 1, "b": 2}, "1"))]}
    assert same(
        lambda lib: lib.ToolNode([add], wrap_tool_call=wrap, handle_tool_errors=handle), given
    )


def test_an_async_wrapper_is_preferred_on_a_loop():
    async def awrap(request, execute):
        result = await execute(request)
        result.content += " async"
        return result

    node = OURS.ToolNode([add], wrap_tool_call=lambda r, e: 1 / 0, awrap_tool_call=awrap)
    given = [calling(("add", {"a": 1, "b": 2}, "1"))]
    assert asyncio.run(node.ainvoke(given))[0].content == "3 async"


def test_a_changed_request_warns():
    from milepost.prebuilt.tool_node import ToolCallRequest

    request = ToolCallRequest(called("add", {}, "1"), None, {}, None)
    with pytest.warns(DeprecationWarning, match="override"):
        request.state = {"x": 1}
    assert request.override(state=3).state == 3
    assert request.state == {"x": 1}


@pytest.mark.parametrize(
    "state",
    [
        {"messages": [AIMessage("done")]},
        {"messages": [calling(("add", {}, "1"))]},
        [calling(("add", {}, "1"))],
        State(messages=[AIMessage("done")], user=""),
        {"messages": []},
        {},
    ],
)
def test_the_condition_decides_alike(state):
    def decide(lib: Any) -> str:
        try:
            return lib.tools_condition(state)
        except ValueError:
            return "ValueError"

    assert decide(OURS) == decide(THEIRS)


class Number(BaseModel):
    a: int


@pytest.mark.parametrize("args", [{"a": 1}, {"a": "x"}, {}])
@pytest.mark.parametrize("schema", [Number, tool(add), add])
def test_a_validation_node_answers_as_langgraphs_does(args, schema):
    name = getattr(schema, "name", None) or schema.__name__
    message = calling((name, args, "1"))
    results = []
    for lib in (OURS, THEIRS):
        with pytest.warns() if lib is THEIRS else _nothing():
            node = lib.ValidationNode([schema])
        results.append(shown([node.invoke([message]), node.invoke({"messages": [message]})]))
    assert results[0] == results[1]


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def test_outside_a_run_a_node_needs_no_config():
    node = OURS.ToolNode([add, *state_tools(OURS)[-1:]])
    given = [calling(("add", {"a": 1, "b": 2}, "1"), ("running", {}, "2"))]
    assert [m.content for m in node.invoke(given)] == ["3", "2 2 2 None"]
    assert [m.content for m in asyncio.run(node.ainvoke(given))] == ["3", "2 2 2 None"]
