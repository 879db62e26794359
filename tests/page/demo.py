"""A graph and a database that show what the page can show: forks, a subgraph, a question, an error.

The graph answers customers of a shop. Nothing in it asks a model: its answers are made up.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph
from milepost.graph.message import add_messages
from milepost.messages import AIMessage, HumanMessage, ToolMessage
from milepost.store.sqlite import SqliteStore
from milepost.types import Command, interrupt


class Support(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    topic: str
    order: dict[str, Any]
    findings: Annotated[list[str], operator.add]
    draft: str
    approved: bool


class Research(TypedDict, total=False):
    topic: str
    queries: list[str]
    findings: Annotated[list[str], operator.add]


ORDERS = {
    "A-1042": {"id": "A-1042", "item": "Trail lamp", "price": 49.0, "delivered": "2026-11-02"},
    "A-2077": {"id": "A-2077", "item": "Canvas tent", "price": 420.0, "delivered": None},
    "A-9000": {"id": "A-9000", "item": "Rope", "price": -1.0, "delivered": None},
}


def triage(state: Support) -> dict[str, Any]:
    text = str(state["messages"][-1].content).lower()
    return {"topic": "refund" if "back" in text or "refund" in text else "question"}


def route(state: Support) -> str:
    return "lookup" if state["topic"] == "refund" else "research"


def lookup(state: Support) -> dict[str, Any]:
    words = " ".join(str(message.content) for message in state["messages"]).replace(".", " ")
    found = next((word for word in words.split() if word.strip("?,!") in ORDERS), "A-1042")
    order = ORDERS[found.strip("?,!")]
    call = {"name": "find_order", "args": {"order_id": order["id"]}, "id": f"call-{order['id']}"}
    said = f"{order['item']}, {order['price']:.2f}, delivered: {order['delivered'] or 'not yet'}"
    return {
        "order": order,
        "messages": [
            AIMessage("Let me look at your order.", tool_calls=[call]),
            ToolMessage(said, tool_call_id=call["id"], name="find_order"),
        ],
    }


def plan(state: Research) -> dict[str, Any]:
    return {"queries": ["shipping times", "return policy"]}


def search(state: Research) -> dict[str, Any]:
    return {"findings": [f"{query}: see the page on it" for query in state["queries"]]}


def review(state: Support) -> dict[str, Any]:
    order = state["order"]
    answer = interrupt(
        {
            "question": f"Pay back {order['price']:.2f} for the {order['item'].lower()}?",
            "order": order["id"],
            "choices": ["yes", "no"],
        }
    )
    return {"approved": answer in (True, "yes")}


def refund(state: Support) -> dict[str, Any]:
    if state["order"]["price"] < 0:
        raise ValueError(f"The order {state['order']['id']} has a price below zero")
    return {"draft": DRAFTS[bool(state.get("approved"))].format(**state["order"])}


DRAFTS = {
    True: "Good news!\n\nWe pay back {price:.2f} for the {item}.\nThe money is with you in 3 days.\n\nBest wishes\nThe shop",
    False: "Thank you for waiting.\n\nWe cannot pay back the {item}.\nWe would like to repair it for free.\n\nBest wishes\nThe shop",
}


def reply(state: Support) -> dict[str, Any]:
    text = "Parcels take two days."
    if state["topic"] == "refund":
        text = state.get("draft", text)
    # A model in name only, whose answer comes word by word.
    model = GenericFakeChatModel(messages=iter([AIMessage(text)]))
    return {"messages": [model.invoke(state["messages"])]}


def make_graph(saver: Any = None, store: Any = None) -> Any:
    inner = StateGraph(Research)
    inner.add_sequence([plan, search])
    inner.add_edge(START, "plan")
    outer = StateGraph(Support)
    for node in (triage, lookup, review, refund, reply):
        outer.add_node(node)
    outer.add_node("research", inner.compile())
    outer.add_edge(START, "triage")
    outer.add_conditional_edges("triage", route, ["lookup", "research"])
    outer.add_edge("lookup", "review")
    outer.add_edge("review", "refund")
    outer.add_edge("refund", "reply")
    outer.add_edge("research", "reply")
    outer.add_edge("reply", END)
    return outer.compile(checkpointer=saver, store=store)


graph = make_graph()
"""What `milepost ui --graph demo:graph` takes."""


def config(thread_id: str, **more: Any) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}, **more}


def ask(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def forked(made: Any, thread_id: str = "lamp-refund", owner: str = "u-17") -> None:
    """A thread that was answered, gone back to, answered in another way, and asked on."""
    at = config(thread_id, metadata={"owner": owner, "channel": "mail"})
    made.invoke(ask("My trail lamp broke. Can I have my money back? Order A-1042"), at)
    made.invoke(Command(resume="no"), at)
    waiting = next(state for state in made.get_state_history(at) if state.next == ("review",))
    made.invoke(Command(resume="yes"), waiting.config)
    drafted = next(state for state in made.get_state_history(at) if state.next == ("reply",))
    kinder = drafted.values["draft"].replace("Best wishes", "We are sorry for the trouble")
    edited = made.update_state(drafted.config, {"draft": kinder})
    made.invoke(None, edited)
    made.invoke(ask("How long does the next parcel take?"), at)


def waiting(made: Any, thread_id: str = "tent-refund") -> None:
    at = config(thread_id, metadata={"owner": "u-23", "channel": "chat"})
    made.invoke(ask("I want a refund for my tent, order A-2077"), at)


def failed(made: Any, thread_id: str = "rope-refund") -> None:
    at = config(thread_id, metadata={"owner": "u-42", "channel": "chat"})
    made.invoke(ask("Please refund my rope, order A-9000"), at)
    with suppress(ValueError):
        made.invoke(Command(resume="yes"), at)


def answered(made: Any, thread_id: str = "shipping") -> None:
    at = config(thread_id, metadata={"owner": "u-17", "channel": "chat"})
    made.invoke(ask("How long does shipping take?"), at)


def fill_store(store: Any) -> None:
    for name, city, likes in (
        ("u-17", "London", "short answers"),
        ("u-23", "New York", "to know why"),
        ("u-42", "Portland", "plain text"),
    ):
        store.put(("customers", name), "profile", {"name": name.title(), "city": city})
        store.put(("customers", name), "tone", {"likes": likes, "formal": name != "u-42"})
    store.put(("policies",), "refunds", {"limit": 100, "days": 30, "ask above": 50})
    store.put(("policies",), "shipping", {"days": 2, "express": True})


def many(made: Any, count: int) -> None:
    """Threads of one question each, of several customers."""
    chosen = random.Random(1)
    for number in range(count):
        owner = chosen.choice(("u-17", "u-23", "u-42", "u-58"))
        at = config(f"ticket-{number:04}", metadata={"owner": owner, "channel": "mail"})
        if number % 9 == 4:
            made.invoke(ask("I would like my money back for order A-2077"), at)
        else:
            made.invoke(ask("How long does shipping take?"), at)


@contextmanager
def opened(path: Path) -> Iterator[tuple[Any, SqliteSaver, SqliteStore]]:
    """The graph on a database of its own, with the database."""
    with (
        SqliteSaver.from_conn_string(str(path), thread_metadata=("owner", "channel")) as saver,
        SqliteStore.from_conn_string(str(path)) as store,
    ):
        saver.setup()
        store.setup()
        yield make_graph(saver, store), saver, store


def build(path: Path, threads: int = 0) -> None:
    """Makes the database."""
    with opened(path) as (made, _, store):
        many(made, threads)
        answered(made)
        failed(made)
        waiting(made)
        forked(made)
        fill_store(store)
