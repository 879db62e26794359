"""What reading takes is in proportion to the bytes: no value in the place of another changes that.

Every value that is written here is read again with something else in the place of each of its
parts, which is of a few bytes and stands for very much. It happens in a process that may not take
much, with the accelerator and without.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import ormsgpack
import pytest
from ormsgpack import Ext
from pydantic import BaseModel, SecretBytes
from test_serde_exact import VALUES, Frozen, Late, Pair, Point, Slotted

from milepost.checkpoint.serde._msgpack import codec, engine, ext, shapes
from milepost.checkpoint.serde._types import families
from milepost.checkpoint.serde._types.exceptions import RemoteError
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import DeserializationError, SerializationError, UnregisteredTypeError

T = TypeVar("T")
SECONDS = 1.0
ROOM = 1 << 30
MANY = 10**8
"""Enough to be noticed, and not so many that a machine without limits would be lost."""

LARGE: dict[str, Any] = {
    "range": Ext(ext.RANGE, ormsgpack.packb([0, MANY, 1])),
    "network": Ext(ext.IP, ormsgpack.packb(["IPv6Network", "::/64"])),
    "number": MANY * 10,
    "bool": True,
    "text": "1e30000000",
    "empty": b"",
    "list": [Ext(ext.RANGE, ormsgpack.packb([0, MANY, 1]))] * 2,
    "dict": {"x": Ext(ext.RANGE, ormsgpack.packb([0, MANY, 1]))},
}


class Model(BaseModel):
    a: Any = None
    b: int = 0


class Open(BaseModel, extra="allow"):
    a: int = 0


def values() -> Iterator[Any]:
    """What is written, at least one of each code."""
    yield from (value for value in VALUES if not (type(value) is bytearray and len(value) > 100))
    yield from (Model(a=1), Model(a=1, b=2), Open(a=1, c=3), SecretBytes(b"x"))
    yield from (Point(1), Frozen((1,)), Slotted(1), Late(1), Pair(1))
    late = Point(1)
    late.z = 5  # type: ignore[attr-defined]
    yield late
    yield from (ValueError("x", 1), OSError(2, "x", "f"), ImportError("x", name="n"))
    yield SyntaxError("x", ("f", 1, 2, "t"))
    yield ExceptionGroup("x", [ValueError(1)])
    yield UnicodeDecodeError("ascii", b"x", 0, 1, "why")
    yield RemoteError("a:B", "x", (1,))
    import numpy as np

    yield from (np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.zeros((0, 3)))
    yield from (np.array([1, "a"], object), np.array(["a"]), np.array(["a"], "T"))
    yield from (np.zeros(2, [("a", "i4"), ("b", "f8", (2,))]), np.zeros((), [(("t", "n"), "i4")]))
    yield from (np.float32(1), np.str_("x"), np.bytes_(b"x"), np.datetime64("2024-01-01"))
    yield from (np.dtype("<i4"), np.dtype([("a", "i4")]), np.zeros(1, [("a", "i4")])[0])
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    yield from (pd.DataFrame({"a": [1, 2]}), pd.Series([1.5], name="s"))
    yield from (pd.Timestamp(5, tz="Europe/Paris"), pd.Timedelta(7), pd.NaT)
    yield from (pl.DataFrame({"a": ["x"]}), pl.Series("s", [1]))
    yield from (pa.table({"a": [1]}), pa.record_batch({"a": [1]}))


def tree(data: bytes) -> Any:
    """The stored value, with the payloads of extensions opened."""

    def opened(code: int, payload: bytes) -> Any:
        if code in ext.NESTED:
            try:
                return _Opened(code, tree(payload))
            except ValueError:
                pass  # a moment in its short form
        return Ext(code, payload)

    return ormsgpack.unpackb(data, ext_hook=opened, option=ormsgpack.OPT_NON_STR_KEYS)


class _Opened:
    def __init__(self, code: int, payload: Any) -> None:
        self.code, self.payload = code, payload

    def __hash__(self) -> int:
        return id(self)


def closed(value: Any) -> Any:
    """What ormsgpack packs."""
    if isinstance(value, _Opened):
        return Ext(value.code, packed(value.payload))
    if isinstance(value, list):
        return [closed(member) for member in value]
    if isinstance(value, dict):
        return {key: closed(member) for key, member in value.items()}
    return value


def packed(value: Any) -> bytes:
    return ormsgpack.packb(closed(value), option=ormsgpack.OPT_NON_STR_KEYS)


def changed(value: Any, other: Any) -> Iterator[Any]:
    """The tree with another value in the place of each of its parts."""
    yield other
    if isinstance(value, _Opened):
        yield from (_Opened(value.code, one) for one in changed(value.payload, other))
    elif isinstance(value, list):
        for at, member in enumerate(value):
            yield from ([*value[:at], one, *value[at + 1 :]] for one in changed(member, other))
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from ({**value, key: one} for one in changed(member, other))


def main() -> None:
    """Read all of them, up to one that takes too much."""
    registry = TypeRegistry()
    registry.register_data_types(sys.modules["test_serde_exact"], Model, Open)
    serde = JsonPlusSerializer(registry=registry)
    written = [(value, *serde.dumps_typed(value)) for value in values()]
    for _, kind, data in written:
        serde.loads_typed((kind, data))  # which imports what there is to import
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    count, codes = 0, set()
    for value, kind, data in written:
        if kind != "msgpack":
            continue
        stored = tree(data)
        codes |= _codes(stored)
        for name, large in LARGE.items():
            for one in changed(stored, large):
                count += 1
                complaint = _read(serde, packed(one))
                if complaint:
                    raise SystemExit(f"{type(value).__name__} with {name}: {complaint}")
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
    if more > 200_000:
        raise SystemExit(f"{more} KB more were taken")
    missing = sorted(ext.NESTED - codes)
    if missing:
        raise SystemExit(f"not tried: {missing}")
    print("read", count > 3_000)


def _codes(value: Any) -> set[int]:
    if isinstance(value, _Opened):
        return {value.code} | _codes(value.payload)
    members = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    return set().union(*map(_codes, members))


def _read(serde: JsonPlusSerializer, data: bytes) -> str:
    start = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, 10 * SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            serde.loads_typed(("msgpack", data))
    except DeserializationError as error:
        if "too large" in str(error):
            return f"{error} {data!r:.80}"
    except KeyboardInterrupt:
        return "it did not end"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    took = time.process_time() - start
    return f"took {took:.1f} s" if took > SECONDS else ""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="it must know what it takes")
@pytest.mark.parametrize("pure", ["0", "1"], ids=["accelerated", "pure"])
def test_nothing_in_the_place_of_another_value_takes_more_than_its_bytes(pure: str) -> None:
    for package in ("numpy", "pandas", "polars", "pyarrow"):
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-c", "import test_serde_proportion as t; t.main()"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parent,
        env={**os.environ, "MILEPOST_PURE": pure},
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.split() == ["read", "True"], done.stdout[:5_000]


@pytest.fixture(params=["accelerated", "pure"])
def serde(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> JsonPlusSerializer:
    if request.param == "pure":
        for module in (codec, engine):
            monkeypatch.setattr(module, "native_unpack", None)
    registry = TypeRegistry()
    registry.register_data_types(sys.modules["test_serde_exact"], Model, Open)
    return JsonPlusSerializer(registry=registry)


FEW = Ext(ext.RANGE, ormsgpack.packb([0, 4, 1]))
"""What a hostile range would be if it were short."""


@pytest.mark.parametrize(
    ("code", "payload"),
    [
        (ext.FRACTION, ["1e3", None]),
        (ext.FRACTION, [1.5, None]),
        (ext.DEQUE, [None, FEW]),
        (ext.DEQUE, [1, "text"]),
        (ext.DEFAULT_DICT, [None, FEW]),
        (ext.RANGE, [4]),
        (ext.RANGE, [0, 4]),
        (ext.SLICE, [4]),
        (ext.TIMEDELTA, [1.5, 0, 0]),
        (ext.TIMEDELTA, FEW),
        (ext.PATH, ["PurePosixPath", "text"]),
        (ext.PATTERN, [b"a", True]),
        (ext.NDSCALAR, ["bytes_", 4]),
        (ext.NDSCALAR, ["str_", b"a"]),
        (ext.NDARRAY, ["<i4", FEW, "C", b""]),
        (ext.NDARRAY, ["<i4", [2], "K", b"\0" * 8]),
        (ext.NDARRAY, ["T", [1], "C", [1]]),
        (ext.DTYPE, "i4,i4"),
        (ext.DTYPE, "(2,)i4"),
        (ext.DTYPE, ["i4", [2]]),
        (ext.ERROR, ["builtins:ValueError", False, ["x", FEW, {}]]),
        (ext.ERROR, ["builtins:SyntaxError", False, ["x", ["x", FEW], {}]]),
        (ext.ERROR, ["builtins:ExceptionGroup", False, ["x", ["x", FEW], {}]]),
        (ext.ERROR, ["else:Where", False, ["x", FEW, {}]]),
        (ext.ERROR, ["else:Where", FEW, ["x", [], {}]]),
        (ext.RECORD, ["test_serde_exact:Frozen", FEW]),
        (ext.RECORD, ["test_serde_exact:Point", [{"x": 1}, {}, FEW]]),
        (ext.RECORD, ["test_serde_exact:Point", [FEW, {}, []]]),
        (ext.RECORD, ["test_serde_exact:Pair", FEW]),
        (ext.RECORD, [f"{__name__}:Model", [{"a": 1, "b": 2}, FEW, None, None]]),
        (ext.RECORD, [f"{__name__}:Open", [{"a": 1}, [], FEW, None]]),
        (ext.RECORD, [f"{__name__}:Model!a", FEW]),
    ],
    ids=lambda given: re.sub(r"<.*?>", "few", str(given)),
)
def test_only_what_a_writer_puts_there_is_read(
    serde: JsonPlusSerializer, code: int, payload: Any
) -> None:
    data = ormsgpack.packb(Ext(code, ormsgpack.packb(payload)))
    with pytest.raises(DeserializationError, match="the stored value does not decode"):
        serde.loads_typed(("msgpack", data))


def test_numbers_that_take_long_to_divide_are_refused_on_both_sides(
    serde: JsonPlusSerializer,
) -> None:
    large, most = 1 << (1 << 19), (1 << (1 << 19)) - 1
    for value in (Fraction(large, 3), Fraction(3, large), range(large), range(0, 9, large)):
        with pytest.raises(SerializationError, match="in a reasonable time"):
            serde.dumps_typed(value)
    for value in (Fraction(most, 2), range(most)):
        assert serde.loads_typed(serde.dumps_typed(value)) == value
    big = Ext(ext.BIGINT, large.to_bytes(70_000, "little"))
    for code, payload in ((ext.FRACTION, [big, 3]), (ext.RANGE, [0, big, 1])):
        data = ormsgpack.packb(Ext(code, ormsgpack.packb(payload)))
        with pytest.raises(DeserializationError, match="are too large"):
            serde.loads_typed(("msgpack", data))


ALIKE = [n * sys.hash_info.modulus + 7 for n in range(1, 1_002)]
"""Numbers of one hash. A set of a hundred thousand of them takes minutes."""


@pytest.mark.parametrize(
    "make",
    [
        set,
        frozenset,
        dict.fromkeys,
        OrderedDict.fromkeys,
        lambda keys: Counter(dict.fromkeys(keys, 1)),
        lambda keys: defaultdict(None, dict.fromkeys(keys)),
    ],
    ids=["set", "frozenset", "dict", "OrderedDict", "Counter", "defaultdict"],
)
def test_members_of_one_hash_are_refused_on_both_sides(
    serde: JsonPlusSerializer, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = make([*ALIKE[1:], *range(8, 5_000)])
    assert serde.loads_typed(serde.dumps_typed(most)) == most
    with pytest.raises(SerializationError, match="have the same hash"):
        serde.dumps_typed(make(ALIKE))
    with monkeypatch.context() as patch:
        patch.setattr(shapes, "_MOST_ALIKE", 2_000)
        data = serde.dumps_typed(make(ALIKE))
    with pytest.raises(DeserializationError, match="have the same hash"):
        serde.loads_typed(data)


class Generics(BaseModel, Generic[T]):
    a: T


def test_stored_names_make_a_bounded_number_of_classes(
    serde: JsonPlusSerializer, monkeypatch: pytest.MonkeyPatch
) -> None:
    serde.registry.register(Generics)
    monkeypatch.setattr(families, "_MOST_GENERICS", 3)

    def read(argument: str) -> Any:
        payload = ormsgpack.packb([f"{__name__}:Generics[{argument}]!a", {"a": 1}])
        return serde.loads_typed(("msgpack", ormsgpack.packb(Ext(ext.RECORD, payload))))

    for argument in ("int", "list[int]", "list[list[int]]", "int"):
        assert read(argument).a == 1
    with pytest.raises(UnregisteredTypeError, match="call register_type"):
        read("list[list[list[int]]]")
    serde.registry.register(Generics[list[list[list[int]]]])
    assert read("list[list[list[int]]]").a == 1
