"""A graph whose nodes change its state at random, with values of all kinds and sizes."""

from __future__ import annotations

import operator
import random
from collections import Counter
from typing import Annotated, Any

from typing_extensions import TypedDict

from milepost.channels import DeltaChannel, EphemeralValue
from milepost.graph import START, StateGraph
from milepost.types import Overwrite, interrupt

SIZES = (8, 64, 96, 128, 512, 750, 1024, 3000)
"""Of texts: on both sides of everything that decides where a value is kept."""
LARGE = (64 * 1024, 128 * 1024, 1 << 20)


def by_id(old: list[Any], new: list[Any]) -> list[Any]:
    """A message takes the place of the one with its id; without content it removes that."""
    kept = {message["id"]: message for message in [*old, *new]}
    return [message for message in kept.values() if message["content"]]


def grafted(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Lists in a dict, that grow or, if nothing is added, lose their first element."""
    return old | {
        key: (old.get(key, []) + added if added else old.get(key, [])[1:])
        for key, added in new.items()
    }


def joined(old: list[Any], writes: Any) -> list[Any]:
    return [*old, *(item for write in writes for item in write)]


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    messages: Annotated[list[Any], by_id]
    table: Annotated[dict[str, Any], operator.or_]
    tree: Annotated[dict[str, Any], grafted]
    delta: Annotated[list[Any], DeltaChannel(joined, snapshot_frequency=4)]
    text: str
    thing: Any
    inner: list[Any]
    here: Annotated[Any, EphemeralValue]
    there: Annotated[Any, EphemeralValue]


class Inner(TypedDict, total=False):
    inner: Annotated[list[Any], operator.add]
    text: str


REDUCED = ("log", "messages", "table", "tree", "delta")
"""Keys that several nodes of a step may write to."""
ALONE = {"left": ["there"], "right": ["here"]}
"""Nodes of one step, and what only one of them writes to."""


class Changes:
    """Random updates: the same ones on every saver."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.number = 0
        """Of the operation."""
        self.made: Counter[str] = Counter()
        self.meanwhile: Any = None
        """To be done while a node is at work."""

    def begin(self, number: int, meanwhile: Any = None) -> None:
        self.number, self.meanwhile = number, meanwhile
        self.made.clear()

    def rng(self, name: str) -> random.Random:
        self.made[name] += 1
        return random.Random(f"{self.seed} {self.number} {name} {self.made[name]}")

    def text(self, rng: random.Random) -> str:
        size = rng.choice(SIZES) + rng.randrange(-9, 5)
        if self.seed % 5 == 0 and rng.random() < 0.01:
            size = rng.choice(LARGE) + rng.randrange(-9, 5)
        letters = rng.choice(["abcdefgh ", "abc", "äöü…🙂 ", '\x00\n\\"'])
        return "".join(rng.choices(letters, k=size // len(letters[0].encode())))

    def thing(self, rng: random.Random, depth: int = 2) -> Any:
        if depth and rng.random() < 0.4:
            some = [self.thing(rng, depth - 1) for _ in range(rng.randrange(4))]
            return rng.choice([some, tuple(some), dict(enumerate(some)), {"a": some, "b": {}}])
        numbers = [rng.randrange(2**80), -rng.randrange(2**64), rng.random()]
        others = [None, True, {1, 2}, rng.randbytes(rng.choice(SIZES)), bytearray(b"x" * 200)]
        return rng.choice([self.text(rng), *numbers, *others])

    def of(self, name: str, state: Any = None) -> dict[str, Any]:
        """Changes of a few keys."""
        rng = self.rng(name)

        def some() -> list[Any]:
            if rng.random() < 0.2:
                return [self.thing(rng)]
            return [self.text(rng) for _ in range(rng.choice([0, 1, 1, 1, 1, 1, 1, 2, 3]))]

        found = [state[key] for key in ("here", "there") if key in (state or {})]

        def passed_on() -> Any:
            """What another key had, perhaps with something added: the value has moved."""
            return rng.choice(found or [[]]) + (some() if rng.random() < 0.5 or not found else [])

        content = self.text(rng) if rng.random() < 0.8 else ""
        made = {
            "log": Overwrite(some()) if rng.random() < 0.05 and len(name) > 1 else some(),
            "messages": [{"id": rng.randrange(20), "content": content}],
            "table": {rng.choice("abc"): self.thing(rng)},
            "tree": {rng.choice("abc"): some()},
            "delta": some(),
            "text": self.text(rng),
            "thing": self.thing(rng),
            "inner": passed_on(),
            "here": passed_on(),
            "there": passed_on(),
        }
        keys = [*REDUCED, *ALONE[name]] if name in ALONE else list(made)
        chosen = rng.sample(keys, rng.randrange(1, 5))
        if found and rng.random() < 0.5:
            chosen += ALONE.get(name, [rng.choice(["here", "there"])])
        return {key: made[key] for key in chosen}


def compiled(saver: Any, changes: Changes) -> Any:
    """start -> left, right -> deep, with a graph inside -> end, which sometimes asks."""

    def node(name: str) -> Any:
        def change(state: Any) -> Any:
            if name == "end":
                meanwhile, changes.meanwhile = changes.meanwhile, None
                if meanwhile is not None:
                    meanwhile()
                if changes.rng("asks").random() < 0.1:
                    interrupt("so?")
            return changes.of(name, state)

        return change

    def deeper(state: Any) -> Any:
        rng = changes.rng("deeper")
        return {"inner": [changes.text(rng)], "text": changes.text(rng)}

    inner = StateGraph(Inner).add_sequence([("one", deeper), ("two", deeper)])
    inner = inner.add_edge(START, "one")
    builder = StateGraph(State)
    for name in ("start", "left", "right", "end"):
        builder.add_node(name, node(name))
    builder.add_node("deep", inner.compile(checkpointer=changes.seed % 2 == 0 or None))
    builder.add_edge(START, "start")
    for side in ("left", "right"):
        builder.add_edge("start", side)
    builder.add_edge(["left", "right"], "deep").add_edge("deep", "end")
    return builder.compile(checkpointer=saver)
