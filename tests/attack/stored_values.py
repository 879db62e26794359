"""Bytes as a saver stores them, changed, and read by both readers. Only where nothing else runs."""

from __future__ import annotations

import contextlib
import random
import uuid
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from checkpoint.serde.msgpack_trees import changed, parse
from milepost.checkpoint.serde._msgpack import codec, engine
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import register_type
from milepost.errors import DeserializationError


@register_type
@dataclass
class Point:
    x: Any
    y: Any


@register_type
class Pair(NamedTuple):
    left: Any
    right: Any


VALUES: list[Any] = [
    (1, "two", 3.0, None, b"four"),
    {"a": ({"b": (1, {2: (3,), None: {4}})}, 5.5), 6: [{b"k": (7,)}] * 9},
    {1, 2, 3},
    frozenset({"a"}),
    deque([1, (2,)], maxlen=4),
    [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), date(2026, 1, 2), timedelta(days=1)],
    [Decimal("1.50"), Fraction(1, 3), 2**80, complex(1, 2)],
    {"id": uuid.UUID(int=7), "path": PurePosixPath("/a/b")},
    Point(1, (2, [3])),
    Pair("l", Point(None, {"k": (1,)})),
    bytearray(b"bytes"),
    [ValueError("x", (1,)), FileNotFoundError(2, "no", "/there")],
    [{"role": "user", "n": (n,)} for n in range(20)],
]


class Readers:
    def __init__(self) -> None:
        self._serde = JsonPlusSerializer()
        found = [self._serde.dumps_typed(value) for value in VALUES]
        self._stored = [data for kind, data in found if kind == "msgpack"]
        self._trees = [parse(data)[0] for data in self._stored]

    def differences(self, rng: random.Random, count: int) -> Iterator[str]:
        """Sentences about the first few of so many changed values that are not read alike."""
        told = 0
        for _ in range(count):
            data = changed(rng, rng.choice(self._stored), self._trees)
            if len(data) > 20_000:
                continue
            with_it = self._outcome(data)
            with without_the_accelerator():
                without_it = self._outcome(data)
            if with_it != without_it and (told := told + 1) < 4:
                yield f"{data.hex()}: in C {with_it}, in Python {without_it}"[:800]

    def _outcome(self, data: bytes) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a regular expression in random bytes may warn
            try:
                value = self._serde.loads_typed(("msgpack", data))
            except DeserializationError:
                return "refused"
        try:
            return type(value).__name__, self._serde.dumps_typed(value)
        except Exception as error:
            return type(value).__name__, str(error)


@contextlib.contextmanager
def without_the_accelerator() -> Iterator[None]:
    """What other threads read meanwhile would be read in Python too, or not at all."""
    modules: list[Any] = [codec, engine]
    before = [module.native_unpack for module in modules]
    for module in modules:
        module.native_unpack = None
    try:
        yield
    finally:
        for module, old in zip(modules, before, strict=True):
            module.native_unpack = old
