"""A database of LangGraph's, made by LangGraph itself, for the tests that look at one."""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict

from inspect_shop import at


@contextmanager
def theirs(address: str) -> Iterator[Any]:
    """LangGraph's saver at an address."""
    if address.startswith("postgres"):
        from langgraph.checkpoint.postgres import PostgresSaver as Saver
    else:
        from langgraph.checkpoint.sqlite import SqliteSaver as Saver
    with Saver.from_conn_string(address) as saver:
        yield saver


class Theirs(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]
    n: int


def fill_theirs(saver: Any, **metadata: Any) -> None:
    """`t` has six checkpoints and asks something."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    def ask(_: Theirs) -> Any:
        return {"messages": [AIMessage(interrupt({"q": "ok?"}))]}

    graph = StateGraph(Theirs)
    graph.add_node("plan", lambda s: {"messages": [AIMessage("plan")], "n": s.get("n", 0) + 1})
    graph.add_node("ask", ask)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "ask")
    compiled = graph.compile(checkpointer=saver)
    config = {**at("t"), "metadata": metadata}
    compiled.invoke({"messages": [HumanMessage("hi")]}, config)
    compiled.invoke({"messages": [HumanMessage("again")]}, config)
