"""The reader in C and the reader in Python give the same value for the same bytes, or both refuse.

MILEPOST_LONG=1 makes it long.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from msgpack_trees import changed, parse
from test_serde_exact import VALUES, Point
from test_serde_fuzz import BLOBS, BOMBS, SERDE, _mutated

from milepost._internal import native
from milepost.checkpoint._delta import diff
from milepost.checkpoint.serde._msgpack import codec, engine, ext
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from collections.abc import Iterator

if not native.AVAILABLE:
    pytest.skip("the accelerator was not built, or is switched off", allow_module_level=True)

LONG = os.environ.get("MILEPOST_LONG") == "1"
ROUNDS = 10_000 if LONG else 1_000
SEEDS = range(25 if LONG else 4)


def _of_libraries() -> Iterator[Any]:
    """Values of what happens to be installed."""
    with contextlib.suppress(ImportError):
        import numpy as np

        yield from (
            np.arange(6).reshape(2, 3),
            np.float32(1.5),
            np.array(["a", b"b"], dtype=object),
        )
        yield np.dtype([("a", "<i4"), ("b", "<f8", (2,))])
    with contextlib.suppress(ImportError):
        import pandas as pd

        yield from (pd.Timestamp(5, tz="UTC"), pd.Timedelta(7))
    with contextlib.suppress(ImportError):
        import pyarrow as pa

        yield pa.table({"a": [1, 2]})


ERRORS = [
    ValueError("x", (1,)),
    FileNotFoundError(2, "no", "/there"),
    ExceptionGroup("two", [KeyError("k"), TypeError()]),
]
MIXED = {"a": ({"b": (1, {2: (3,), None: {4}})}, 5.5), 6: [{b"k": Point(1, (2,))}] * 9}
STORED = [
    *BLOBS,
    *(
        data
        for kind, data in map(
            SERDE.dumps_typed,
            [
                *ERRORS,
                *_of_libraries(),
                MIXED,
                (VALUES,),
                [{"role": "user", "n": (n,)} for n in range(40)],
            ],
        )
        if kind == "msgpack"
    ),
]
SMALL = [data for data in STORED if len(data) < 3_000]
TREES = [parse(data)[0] for data in SMALL]


@contextlib.contextmanager
def python_alone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (codec, engine):
            patch.setattr(module, "native_unpack", None)
        yield


def _look(value: Any) -> tuple[Any, ...]:
    """A value so that two can be compared: as it is written, since that is exact.

    What could not be written is compared as text, in which members of a set may change places.
    """
    try:
        return type(value), SERDE.dumps_typed(value)
    except Exception as error:
        written = str(error)
    try:
        return type(value), written, sorted(repr(value))
    except Exception as error:
        return type(value), written, str(error)


def _outcome(pieces: list[bytes]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a regular expression in random bytes may warn
        try:
            return _look(SERDE.decode_pieces("msgpack", pieces))
        except DeserializationError as error:
            return str(error)


def read_alike(data: bytes, *cuts: int) -> Any:
    """What both readers make of the bytes, which the one in C may get in pieces."""
    ends = sorted({0, *cuts, len(data)})
    pieces = [data[start:end] for start, end in pairwise(ends)] or [b""]
    found = _outcome(pieces)
    with python_alone():
        expected = _outcome([data])
    assert found == expected, data
    return found


def test_what_was_written_is_read() -> None:
    for data in STORED:
        assert type(read_alike(data)) is tuple


def test_the_trees_are_those_of_the_stored_bytes() -> None:
    """A change that is made to one of them would otherwise not be the change that was meant."""
    for tree, data in zip(TREES, SMALL, strict=True):
        again = tree.bytes()
        assert parse(again)[0].bytes() == again
        assert read_alike(again) == read_alike(data)
    codes = {node.code for tree in TREES for node in tree.all()} - {0}
    known = {code for name, code in vars(ext).items() if name.isupper() and type(code) is int}
    assert known - codes <= {ext.NDARRAY, ext.NDSCALAR, ext.DTYPE, ext.ARROW, ext.PANDAS_TIME}


@pytest.mark.parametrize("code", sorted(ext.NESTED))
def test_what_follows_a_value_inside_an_extension_is_refused(code: int) -> None:
    found = [data for data in SMALL if any(node.code == code for node in parse(data)[0].all())]
    if not found:
        pytest.skip("of a package that is not installed")
    refused = 0
    for data in found:
        tree = parse(data)[0]
        for node in tree.all():
            if node.code == code and node.members:
                refused += 1
                for surplus in (b"\xc0", b"\x90", b"\xc1", b"\x01\x02"):
                    node.surplus = surplus
                    assert type(read_alike(tree.bytes())) is str, (data, surplus)
                node.surplus = b""
    assert refused


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_structures_are_read_alike(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(ROUNDS):
        data = changed(source, source.choice(SMALL), TREES)
        if len(data) < 20_000:
            read_alike(
                data, *(source.randrange(len(data) + 1) for _ in range(source.choice([0, 0, 1, 3])))
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_bytes_are_read_alike(seed: int) -> None:
    source = random.Random(1_000 + seed)
    for _ in range(ROUNDS):
        read_alike(_mutated(source, source.choice(STORED)))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_cut_off_is_read_alike(seed: int) -> None:
    source = random.Random(2_000 + seed)
    for _ in range(ROUNDS // 5):
        data = source.choice(SMALL)
        read_alike(data[: source.randrange(len(data))])


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_read_alike(name: str) -> None:
    read_alike(BOMBS[name])


LEAVES = (
    b"\x01",
    b"\x90",
    b"\x80",
    b"\x91\x01",
    b"\x81\xa0\x01",
    b"\x81\x01\x01",
    b"\xd5\x20\x91\x01",
)
KEYS = (
    b"\x81\x90\x01",
    b"\x81\x91\x01\x01",
    b"\x81\x92\x91\xc4\x01k\xc0\x01",
    b"\x81\x91\xd4\x20\x90\x01",
)


@pytest.mark.parametrize("leaf", LEAVES + KEYS)
@pytest.mark.parametrize("inside", [False, True], ids=["here", "in a tuple"])
def test_depths_and_odd_keys_are_read_alike(leaf: bytes, inside: bool) -> None:
    for lists in (0, 1, 255, 256, 999, 1_000, 1_001, *range(1_017, 1_026)):
        data = b"\x91" * lists + leaf
        if inside:
            data = b"\xc8" + (len(data) + 1).to_bytes(2, "big") + b"\x20\x91" + data
        read_alike(data)


def test_dicts_with_other_keys_in_each_other_are_read_once() -> None:
    """Each would otherwise be read twice for every one around it."""
    value: Any = 0
    for _ in range(14):
        value = ({"a": value, 1: 2},)
    stored = SERDE.dumps_typed(value)
    calls = 0

    def count(frame: Any, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    with python_alone():
        sys.setprofile(count)
        try:
            found = SERDE.loads_typed(stored)
        finally:
            sys.setprofile(None)
    assert calls < 200
    assert repr(found) == repr(value)


@pytest.mark.parametrize("seed", SEEDS)
def test_differences_are_read_alike(seed: int) -> None:
    source = random.Random(3_000 + seed)

    def outcome(data: bytes) -> Any:
        try:
            return [step if type(step) is tuple else bytes(step) for step in diff.unpack(data)]
        except DeserializationError:
            return None

    for _ in range(ROUNDS // 5):
        steps = [
            source.choice(
                [source.randbytes(source.choice([1, 40, 5_000])), (source.randrange(1 << 33), 7)]
            )
            for _ in range(source.randrange(20))
        ]
        data = diff.pack(steps)
        assert outcome(data) == steps
        for broken in (data + b"\xc0", data[: source.randrange(len(data))], _mutated(source, data)):
            found = outcome(broken)
            with python_alone():
                assert outcome(broken) == found, broken
        assert outcome(data + b"\xc0") is None
