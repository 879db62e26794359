"""One name for what both libraries offer, so that a program is written once and run on both; their
savers and stores, opened alike."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from both import Library

LANGGRAPH = Library("langgraph")
MILEPOST = Library("milepost")


def opened(library: str, what: str, kind: str, request: Any, **settings: Any) -> Any:
    """A library's "Saver" or "Store", of a kind such as "memory" or "sqlite-async"."""
    home = f"{library}.{'checkpoint' if what == 'Saver' else 'store'}"
    place, _, colour = kind.partition("-")
    if kind == "memory":
        return getattr(importlib.import_module(f"{home}.memory"), f"InMemory{what}")(**settings)
    opener = request.getfixturevalue("opener")
    module = importlib.import_module(f"{home}.{place}{'.aio' if colour else ''}")
    if place == "sqlite":
        address = str(request.getfixturevalue("tmp_path") / f"{library}.db")
    else:
        address = request.getfixturevalue("new_database")()
    cls = getattr(module, f"{colour.title()}{place.title()}{what}")
    made = opener.enter(cls.from_conn_string(address, **settings))
    ready = made.setup()
    if colour:
        opener.wait(ready)
    return made


def cases(kinds: list[str]) -> list[Any]:
    """Colour and kind: what lives on a loop is used on it alone."""
    return [
        pytest.param(colour, kind, id=f"{colour}-{kind}")
        for colour in ("sync", "async")
        for kind in kinds
        if colour == "async" or "async" not in kind
    ]
