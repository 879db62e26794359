"""Reads server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx


class Received(NamedTuple):
    """An event as a client gets it."""

    name: str
    data: Any
    id: str | None


@contextmanager
def listening(client: httpx.Client, method: str, path: str, **options: Any) -> Iterator[Any]:
    """The events of a stream, as they come."""
    with client.stream(method, path, **options) as answer:
        if answer.status_code != 200:
            answer.read()
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[Received]:
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Received(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}


def until(events: Iterator[Received], name: str) -> Received:
    """The next event of this name; those before it are passed over."""
    return next(event for event in events if event.name == name)
