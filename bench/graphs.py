"""The graphs that are measured, the same for both libraries."""

from __future__ import annotations

import operator
import random
import string
from functools import cache
from typing import Annotated, Any, TypedDict

from bench.libraries import Library

CONTENT = 540
"""Characters of a message."""

_ALPHABET = string.ascii_letters + string.digits + "    "


class Count(TypedDict):
    n: int
    last: int


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


class Chat(TypedDict):
    messages: Annotated[list[dict[str, str]], operator.add]


def loop(
    library: Library,
    saver: Any = None,
    *,
    colour: str = "sync",
    schema: Any = Count,
    idle: int = 0,
) -> Any:
    """One node that runs until `n` has reached `last`, and others that could run but do not.

    The colour is that of the node and of its router; `mixed` is an async node and a sync router.
    """
    builder = library.StateGraph(schema)
    builder.add_node("count", _count if colour == "sync" else _acount)
    builder.add_edge(library.START, "count")
    end = library.END
    others = [f"idle{number}" for number in range(idle)]
    for name in others:
        builder.add_node(name, _count)
        builder.add_edge(name, end)

    def more(state: Count) -> str:
        return "count" if state["n"] < state["last"] else end

    async def amore(state: Count) -> str:
        return more(state)

    router = amore if colour == "async" else more
    builder.add_conditional_edges("count", router, ["count", end, *others])
    return builder.compile(checkpointer=saver)


def _count(state: Count) -> dict[str, Any]:
    return {"n": state["n"] + 1}


async def _acount(state: Count) -> dict[str, Any]:
    return {"n": state["n"] + 1}


def fan_out(library: Library, width: int, saver: Any = None) -> Any:
    """Many tasks at once, and one that waits for all."""
    builder = library.StateGraph(Words)
    send = library.Send

    def spread(state: Words) -> list[Any]:
        return [send("work", {"words": [f"{state['words'][0]} {i}"]}) for i in range(width)]

    builder.add_node("work", lambda state: {"words": [state["words"][0].upper()]})
    builder.add_node("join", lambda state: {"words": [str(len(state["words"]))]})
    builder.add_conditional_edges(library.START, spread, ["work"])
    builder.add_edge("work", "join")
    builder.add_edge("join", library.END)
    return builder.compile(checkpointer=saver)


class Edited(TypedDict):
    n: int
    text: str


def editor(library: Library, saver: Any) -> Any:
    """A node that changes a few characters in the middle of a text."""
    builder = library.StateGraph(Edited)

    def edit(state: Edited) -> dict[str, Any]:
        text, middle = state["text"], len(state["text"]) // 2
        return {"text": f"{text[:middle]}{state['n'] % 100_000_000:08}{text[middle + 8 :]}"}

    builder.add_node("edit", edit)
    builder.add_edge(library.START, "edit")
    builder.add_edge("edit", library.END)
    return builder.compile(checkpointer=saver)


def chat(library: Library, saver: Any) -> Any:
    """A conversation; it waits for a person when the last message says so."""
    builder = library.StateGraph(Chat)
    interrupt = library.interrupt

    def reply(state: Chat) -> dict[str, Any]:
        asked = state["messages"][-1]["content"]
        content = interrupt("go on?") if asked == ASK else text(len(state["messages"]))
        return {"messages": [{"role": "assistant", "content": content}]}

    builder.add_node("reply", reply)
    builder.add_edge(library.START, "reply")
    builder.add_edge("reply", library.END)
    return builder.compile(checkpointer=saver)


def talk(library: Library, saver: Any, *, is_async: bool = False) -> Any:
    """A conversation of LangChain's messages."""
    from langchain_core.messages import AIMessage

    builder = library.StateGraph(library.MessagesState)

    def reply(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(text(len(state["messages"])))]}

    async def areply(state: Any) -> dict[str, Any]:
        return reply(state)

    builder.add_node("reply", areply if is_async else reply)
    builder.add_edge(library.START, "reply")
    builder.add_edge("reply", library.END)
    return builder.compile(checkpointer=saver)


def spoken_turn(number: int) -> dict[str, Any]:
    """The input of one turn of it."""
    from langchain_core.messages import HumanMessage

    return {"messages": [HumanMessage(text(2 * number))]}


def spoken(library: Library, words: int) -> tuple[Any, Any]:
    """A model that says so many words, and a graph whose one node lets it speak."""
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    said = " ".join(f"w{number}" for number in range(words // 2 + 1))  # the blanks are tokens too
    model = GenericFakeChatModel(messages=iter(lambda: AIMessage(said), None))
    builder = library.StateGraph(library.MessagesState)
    builder.add_node("speak", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_edge(library.START, "speak")
    builder.add_edge("speak", library.END)
    return model, builder.compile()


def nested(library: Library, saver: Any) -> Any:
    """A loop whose node is a graph of three nodes."""
    inner = library.StateGraph(Count)
    inner.add_node("first", lambda state: {"n": state["n"] + 1})
    inner.add_node("second", lambda state: {"n": state["n"] + 1})
    inner.add_node("third", lambda state: {"n": state["n"] - 1})
    inner.add_edge(library.START, "first")
    inner.add_edge("first", "second")
    inner.add_edge("second", "third")
    inner.add_edge("third", library.END)
    builder = library.StateGraph(Count)
    builder.add_node("inner", inner.compile())
    builder.add_edge(library.START, "inner")
    builder.add_conditional_edges(
        "inner", lambda state: "inner" if state["n"] < state["last"] else library.END
    )
    return builder.compile(checkpointer=saver)


def asking(library: Library, saver: Any) -> Any:
    """A loop whose node asks for what it counts by."""
    builder = library.StateGraph(Count)
    interrupt = library.interrupt
    builder.add_node("ask", lambda state: {"n": state["n"] + interrupt("by how much?")})
    builder.add_edge(library.START, "ask")
    builder.add_conditional_edges(
        "ask", lambda state: "ask" if state["n"] < state["last"] else library.END
    )
    return builder.compile(checkpointer=saver)


ASK = "?"


def user_turn(number: int) -> dict[str, Any]:
    """The input of one turn."""
    return {"messages": [{"role": "user", "content": text(2 * number)}]}


@cache
def text(number: int) -> str:
    """A text that does not compress, the same in every run."""
    return "".join(random.Random(number).choices(_ALPHABET, k=CONTENT))


def payload(turns: int) -> int:
    """Bytes of the contents of a chat."""
    return 2 * CONTENT * turns


def on_thread(thread: str, steps: int = 25) -> dict[str, Any]:
    """A config for a run of so many steps."""
    return {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10}
