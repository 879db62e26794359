"""Servers for tests: real ones, on a port of this machine."""

from __future__ import annotations

import operator
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
from typing_extensions import TypedDict

from milepost.graph import END, START, StateGraph, add_messages
from milepost.server import create_app
from milepost.server._serve import UiServer, address_of, bind
from milepost.types import interrupt

TOKEN = "a-token-of-the-tests"


@dataclass
class Running:
    """A server that answers."""

    url: str
    app: Any

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    headers = {"x-api-key": TOKEN}

    @property
    def kind(self) -> str:
        """The kind of its database."""
        return str(self.app.state.server.database.kind)

    def client(self, **options: Any) -> httpx.Client:
        """A client that has the token."""
        headers = {**self.headers, **options.pop("headers", {})}
        return _client(self.url, headers=headers, **options)

    def stranger(self, **options: Any) -> httpx.Client:
        """A client that has not."""
        return _client(self.url, **options)


_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Nothing is encrypted here. To read the usual certificates takes longer than most tests."""


def _client(url: str, **options: Any) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=20, verify=_NO_CERTIFICATES, **options)


@contextmanager
def serving(database: Any, **options: Any) -> Iterator[Running]:
    """A server on a free port, until the block ends."""
    app = create_app(database, **{"token": TOKEN, **options})
    listening = bind("127.0.0.1", 0)
    url = address_of(listening, "127.0.0.1")
    server = UiServer(app)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "the server has ended"
        assert time.monotonic() < deadline, "the server does not start"
        time.sleep(0.005)
    try:
        yield Running(url, app)
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive(), "the server does not stop"


class State(TypedDict, total=False):
    """A list that grows, and the answer to a question."""

    log: Annotated[list[str], operator.add]
    answer: str


def plan(state: State) -> State:
    return {"log": ["planned"]}


def ask(state: State) -> State:
    return {"answer": interrupt({"question": "Go on?"}), "log": ["asked"]}


def asking_graph() -> Any:
    """Plans, asks, ends."""
    builder = StateGraph(State)
    builder.add_node("plan", plan)
    builder.add_node("ask", ask)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "ask")
    builder.add_edge("ask", END)
    return builder.compile(name="asking")


def on(thread_id: str) -> Any:
    """The config that names a thread."""
    return {"configurable": {"thread_id": thread_id}}


class Chat(TypedDict):
    """A conversation."""

    messages: Annotated[list[Any], add_messages]


def chatting_graph() -> Any:
    """A subgraph whose model speaks word by word."""
    from langchain_core.language_models import GenericFakeChatModel

    model = GenericFakeChatModel(messages=iter(["one two three"] * 100))

    async def speak(state: Chat) -> Chat:
        return {"messages": [await model.ainvoke(state["messages"])]}

    inner = StateGraph(Chat)
    inner.add_node("speak", speak)
    inner.add_edge(START, "speak")
    outer = StateGraph(Chat)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    return outer.compile(name="chatting")
