"""Whatever bytes are read: a value or a typed error, in bounded time and memory.

MILEPOST_LONG=1 makes it long.
"""

import contextlib
import os
import random
import subprocess
import sys
import tracemalloc
import warnings
from typing import Any

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_serde_exact import VALUES, Point

from milepost.checkpoint.serde._msgpack import ext
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import DeserializationError

LONG = os.environ.get("MILEPOST_LONG") == "1"
REGISTRY = TypeRegistry()
REGISTRY.register_data_types(sys.modules["test_serde_exact"])
SERDE = JsonPlusSerializer(registry=REGISTRY)
BLOBS = [
    data
    for kind, data in map(SERDE.dumps_typed, [*VALUES, VALUES[:60], [Point(v) for v in VALUES]])
    if kind == "msgpack"
]


def read(data: bytes) -> None:
    """Read; anything but a value or a typed error is a failure of the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a regular expression in random bytes may warn
        with contextlib.suppress(DeserializationError):
            SERDE.loads_typed(("msgpack", data))


@given(st.binary(max_size=200))
@settings(max_examples=20_000 if LONG else 500, deadline=None)
def test_random_bytes_are_a_value_or_a_typed_error(data: bytes) -> None:
    read(data)


def _mutated(source: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(made) + 1)
        match source.randrange(6):
            case 0 if made:
                made[at % len(made)] ^= 1 << source.randrange(8)
            case 1 if made:
                made[at % len(made)] = source.choice(
                    b"\x80\x90\xa0\xc0\xc1\xc4\xc7\xc9\xd4\xd9\xdc\xdd\xdf\xff"
                )
            case 2:
                del made[at:]
            case 3:
                made[at:at] = source.choice(BLOBS)[:500]
            case 4:
                del made[at : at + source.randint(1, 8)]
            case _:
                made[at:at] = source.randbytes(source.randint(1, 8))
    return bytes(made)


@pytest.mark.parametrize("seed", range(40 if LONG else 4))
def test_stored_bytes_that_were_changed_are_a_value_or_a_typed_error(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(5_000 if LONG else 700):
        read(_mutated(source, source.choice(BLOBS)))


@pytest.mark.parametrize("seed", range(10 if LONG else 2))
def test_random_payloads_of_every_code_are_a_value_or_a_typed_error(seed: int) -> None:
    source = random.Random(seed)
    for code in range(128):
        for _ in range(50 if LONG else 4):
            payload = source.choice(
                [
                    source.randbytes(source.randrange(40)),
                    ormsgpack.packb(
                        [
                            source.choice(["", 0, None, [], {}, b"", -1, 2**63, "C"])
                            for _ in range(source.randrange(6))
                        ]
                    ),
                    ormsgpack.packb(source.choice([{}, "x", 5, None, 1e300])),
                ]
            )
            read(ormsgpack.packb(ormsgpack.Ext(code, payload)))


def _wrapped(depth: int, lists: int, code: int = ext.TUPLE) -> bytes:
    data = b"\x01"
    for _ in range(depth):
        data = b"\x91" * lists + data
        data = b"\xc9" + len(data).to_bytes(4, "big") + bytes((code,)) + data
    return data


BOMBS = {
    "lists": b"\x91" * 100_000,
    "maps": b"\x81\x01" * 100_000,
    "long lists": b"\xdd\xff\xff\xff\xff" * 1_000,
    "long map": b"\xdf\xff\xff\xff\xff",
    "long bytes": b"\xc6\xff\xff\xff\xff",
    "long text": b"\xdb\xff\xff\xff\xff",
    "long extension": b"\xc9\xff\xff\xff\xff\x20",
    "tuples": _wrapped(2_000, 1),
    "tuples of lists": _wrapped(60, 1_000),
    "few tuples of lists": _wrapped(5, 1_000),
    "pairs": _wrapped(500, 2, ext.PAIRS),
    "records": _wrapped(500, 2, ext.RECORD),
    "errors": _wrapped(500, 3, ext.ERROR),
    "hidden by garbage": _wrapped(40, 1_000) + b"\xdb\x00\xff\xff\xff",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bytes_that_promise_more_than_they_hold_are_read_in_bounded_memory(name: str) -> None:
    data = BOMBS[name]
    tracemalloc.start()
    try:
        read(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(data) + 50_000_000


def test_deep_bytes_and_values_do_not_overflow_the_stack_where_recursion_is_allowed() -> None:
    code = (
        f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
"""
        + """
sys.setrecursionlimit(1_000_000)
import test_serde_fuzz as fuzz
for name, data in fuzz.BOMBS.items():
    fuzz.read(data)
value = 1
for _ in range(100_000):
    value = (value,)
for make in (lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {(1,): v}):
    value = 1
    for _ in range(50_000):
        value = make(value)
    try:
        fuzz.SERDE.dumps_typed(value)
    except TypeError:
        print("refused")
import os
os._exit(0)  # freeing those values is Python's own affair
"""
    )
    done = subprocess.run(
        [sys.executable, "-u", "-c", code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.split() == ["refused"] * 4


@given(st.text(max_size=20), st.binary(max_size=50))
@settings(max_examples=100, deadline=None)
def test_random_kinds_are_bytes_none_or_a_typed_error(kind: str, data: bytes) -> None:
    value: Any = None
    try:
        value = SERDE.loads_typed((kind, data))
    except DeserializationError:
        return
    assert value in (None, data)
