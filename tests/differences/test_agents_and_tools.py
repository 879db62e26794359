"""Agents and tools."""

from __future__ import annotations

from typing import Any

import pytest
from differing import Row, Rows

messages = pytest.importorskip("langchain_core.messages")
tools = pytest.importorskip("langchain_core.tools")
pydantic = pytest.importorskip("pydantic")

ROWS = Rows()


def called(lib: Any, made: list[Any], *calls: str, args: dict[str, Any] | None = None) -> list[str]:
    """What an outer graph has heard after an inner one has made these calls."""
    asked = [{"name": name, "args": args or {}, "id": name} for name in calls]
    inner = lib.StateGraph(lib.MessagesState).add_node("tools", lib.ToolNode(made))
    outer = lib.StateGraph(lib.MessagesState).add_node("end", lambda _: {})
    outer.add_node("n", inner.add_edge(lib.START, "tools").compile()).add_edge(lib.START, "n")
    given = {"messages": [messages.AIMessage("", tool_calls=asked)]}
    return [message.content for message in outer.compile().invoke(given)["messages"][1:]]


@ROWS.differ(
    "a tool returns `Command(graph=Command.PARENT, update=…, goto=[Send(…)])`",
    langgraph=[],
    milepost=["over"],
)
def update_beside_a_send(lib: Any) -> Any:
    @tools.tool
    def over() -> Any:
        """Hand over."""
        update = {"messages": [messages.AIMessage("over")]}
        goto = [lib.Send("end", {})]
        return lib.Command(graph=lib.Command.PARENT, update=update, goto=goto)

    return called(lib, [over], "over")


@ROWS.differ(
    "a tool hands over to the outer graph with its messages",
    langgraph=["over"],
    milepost=["worked", "over"],
)
def handed_over_beside_a_call(lib: Any) -> Any:
    @tools.tool
    def work() -> str:
        """Work."""
        return "worked"

    call = {"name": "work", "args": {}, "id": "work"}

    @tools.tool
    def over() -> Any:
        """Hand over."""
        told = [messages.AIMessage("", tool_calls=[call]), messages.AIMessage("over")]
        update = {"messages": told}
        return lib.Command(graph=lib.Command.PARENT, update=update, goto="end")

    return [text for text in called(lib, [work, over], "work", "over") if text]


class Span(pydantic.BaseModel):
    low: int
    high: int

    @pydantic.model_validator(mode="after")
    def is_ordered(self) -> Span:
        if self.low > self.high:
            raise ValueError("low > high")
        return self


@ROWS.differ(
    "wrong arguments that a validator of the whole schema of a tool finds",
    langgraph=False,
    milepost=True,
)
def refused_by_a_validator(lib: Any) -> Any:
    @tools.tool(args_schema=Span)
    def measure(low: int, high: int) -> int:
        """Measure."""
        return high - low

    (told,) = called(lib, [measure], "measure", args={"low": 2, "high": 1})
    return "low > high" in told


@pytest.mark.parametrize("row", ROWS, ids=[row.program.__name__ for row in ROWS])
@pytest.mark.filterwarnings("ignore")
def test_each_library_ends_as_the_row_says(row: Row, lib: Any) -> None:
    assert row.program(lib) == getattr(row, lib.name)
