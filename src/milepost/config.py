"""Functions that find what belongs to the node that they are called in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost._engine.context.langchain_bridge import config_around
from milepost._engine.context.task_context import current_context, given_runtime
from milepost.errors import OutsideRunError

if TYPE_CHECKING:
    from milepost.store.base import BaseStore
    from milepost.types import RunnableConfig, StreamWriter

__all__ = ["get_config", "get_store", "get_stream_writer"]


def get_config() -> RunnableConfig:
    """The config of the running node, or of the LangChain runnable that this is called in.

    Raises:
        OutsideRunError: It is called outside of a node and of a LangChain runnable.

    Examples:
        >>> from milepost.config import get_config
        >>> from milepost.graph import START, StateGraph
        >>> who = lambda state: {"by": get_config()["configurable"]["user"]}
        >>> graph = StateGraph(dict).add_node("who", who).add_edge(START, "who").compile()
        >>> graph.invoke({}, {"configurable": {"user": "Ada"}})
        {'by': 'Ada'}
    """
    around = config_around()
    return current_context("get_config").config if around is None else around


def get_store() -> BaseStore:
    """The store that the graph was compiled with.

    None if it has none: a strict graph raises OutsideRunError then, any other warns.

    Raises:
        OutsideRunError: It is called outside of a node, or in a strict graph without a store.

    Examples:
        >>> from milepost.config import get_store
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.store.memory import InMemoryStore
        >>> def remember(state):
        ...     get_store().put(("facts",), "home", {"city": state["city"]})
        >>> store = InMemoryStore()
        >>> builder = StateGraph(dict).add_node("remember", remember).add_edge(START, "remember")
        >>> _ = builder.compile(store=store).invoke({"city": "Paris"})
        >>> store.get(("facts",), "home").value
        {'city': 'Paris'}
    """
    if (given := given_runtime()) is not None:
        return given.store  # type: ignore[return-value] # as below
    run = current_context("get_store").run
    store = run.resources.store
    if store is None:
        run.program.strictness.check(
            "get_store",
            lambda: OutsideRunError(
                "The graph has no store. Compile it with one: "
                "`builder.compile(store=InMemoryStore())`."
            ),
            "get_store() returns None.",
        )
    return store  # type: ignore[return-value] # what the documents say, and most programs have


def get_stream_writer() -> StreamWriter:
    """A function that sends to the `custom` stream.

    Raises:
        OutsideRunError: It is called outside of a node.

    Examples:
        >>> from milepost.config import get_stream_writer
        >>> from milepost.graph import START, StateGraph
        >>> def work(state):
        ...     get_stream_writer()("half done")
        >>> graph = StateGraph(dict).add_node("work", work).add_edge(START, "work").compile()
        >>> list(graph.stream({}, stream_mode="custom"))
        ['half done']
    """
    return (given_runtime() or current_context("get_stream_writer")).stream_writer
