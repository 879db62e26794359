"""A small server on loopback that speaks the part of the wire contract that RemoteGraph uses.

It runs a graph of milepost's, and remembers the requests that it got.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from milepost.errors import ParentCommand
from milepost.types import Command, Send


class Server(ThreadingHTTPServer):
    """The graph, and what was asked."""

    daemon_threads = True

    def __init__(self, graph: Any) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.graph = graph
        self.requests: list[tuple[str, str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(graph: Any) -> Iterator[Server]:
    with Server(graph) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        return None

    def do_GET(self) -> None:
        self.answer(None)

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        self.answer(json.loads(self.rfile.read(size) or b"null"))

    def answer(self, body: Any) -> None:
        address = urlsplit(self.path)
        self.server.requests.append((self.command, self.path, body))
        parts = address.path.strip("/").split("/")
        if parts[0] == "assistants":
            return self.reply(self.server.graph.get_graph().to_json())
        thread = parts[1] if parts[0] == "threads" else None
        if parts[-2:] == ["runs", "stream"]:
            return self.run(thread, body)
        graph, config = self.server.graph, self.config(thread, (body or {}).get("checkpoint"))
        if parts[-1] == "history":
            before = body.get("before")
            found = graph.get_state_history(
                self.config(thread, None),
                limit=body["limit"],
                filter=body.get("metadata"),
                before=before and self.config(thread, before),
            )
            return self.reply([state(one) for one in found])
        if parts[-1] == "state" and self.command == "POST":
            made = graph.update_state(config, body["values"], body.get("as_node"))
            return self.reply({"checkpoint": checkpoint(made)})
        return self.reply(state(graph.get_state(config)))

    @staticmethod
    def config(thread: str | None, place: Any) -> Any:
        place = {k: v for k, v in (place or {}).items() if k != "thread_id"}
        return {"configurable": {"thread_id": thread, **place}}

    def reply(self, content: Any) -> None:
        data = json.dumps(content, default=plain).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def run(self, thread: str | None, body: Any) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        config = {**(body.get("config") or {})}
        configurable = {**config.get("configurable", {})}
        if thread is not None:
            configurable["thread_id"] = thread
        configurable.update(body.get("checkpoint") or {})
        config["configurable"] = configurable
        graph = (
            self.server.graph
            if thread is not None
            else self.server.graph.copy({"checkpointer": None})
        )
        given = body.get("input")
        if command := body.get("command"):
            goto = [
                Send(one["node"], one["input"]) if isinstance(one, dict) else one
                for one in command.get("goto") or ()
            ]
            given = Command(update=command.get("update"), resume=command.get("resume"), goto=goto)
        modes = ["messages" if mode == "messages-tuple" else mode for mode in body["stream_mode"]]
        self.event("metadata", {"run_id": "1", "attempt": 1})
        try:
            for ns, mode, data in graph.stream(
                given,
                config,
                stream_mode=modes,
                subgraphs=True,
                interrupt_before=body.get("interrupt_before"),
                interrupt_after=body.get("interrupt_after"),
                context=body.get("context"),
            ):
                if not ns:
                    self.event(mode, data)
                elif body["stream_subgraphs"]:
                    self.event("|".join([mode, *ns]), data)
        except ParentCommand as up:
            self.event("command", asdict(up.command))
        except Exception as error:
            self.event("error", {"error": type(error).__name__, "message": str(error)})

    def event(self, name: str, data: Any) -> None:
        text = f"event: {name}\ndata: {json.dumps(data, default=plain)}\n\n"
        self.wfile.write(text.encode())


def plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, tuple):
        return list(value)
    return str(value)


def checkpoint(config: Any) -> Any:
    configurable = config["configurable"]
    return {
        "thread_id": configurable["thread_id"],
        "checkpoint_ns": configurable.get("checkpoint_ns", ""),
        "checkpoint_id": configurable["checkpoint_id"],
    }


def state(snapshot: Any) -> Any:
    return {
        "values": snapshot.values,
        "next": list(snapshot.next),
        "checkpoint": checkpoint(snapshot.config),
        "metadata": snapshot.metadata,
        "created_at": snapshot.created_at,
        "parent_checkpoint": snapshot.parent_config and checkpoint(snapshot.parent_config),
        "tasks": [
            {
                "id": task.id,
                "name": task.name,
                "error": task.error and str(task.error),
                "interrupts": [{"value": i.value, "id": i.id} for i in task.interrupts],
                "checkpoint": None,
                "state": None,
                "result": task.result,
            }
            for task in snapshot.tasks
        ],
    }
