"""The accelerator writes the bytes that Python writes, and reads what Python reads.

MILEPOST_LONG=1 makes it long.
"""

import contextlib
import os
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_serde_fuzz import BLOBS, BOMBS, _mutated

from milepost._internal import native
from milepost.checkpoint.serde._msgpack import codec, engine, ext
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import SerdeError

if not native.AVAILABLE:
    pytest.skip("the accelerator was not built, or is switched off", allow_module_level=True)

LONG = os.environ.get("MILEPOST_LONG") == "1"
SERDE = JsonPlusSerializer()
pack, unpack = native.pack, native.unpack


@contextlib.contextmanager
def pure() -> Iterator[None]:
    """Python alone."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (codec, engine):
            for name in ("native_pack", "native_unpack"):
                patch.setattr(module, name, None, raising=False)
        yield


def outcome(work: Callable[..., Any], *arguments: Any) -> Any:
    """What it returns, or the error in words."""
    try:
        return work(*arguments)
    except SerdeError as error:
        return f"{type(error).__name__}: {error}"


def written(value: Any) -> Any:
    """How it is written, which must be the same with the accelerator and without."""
    found = outcome(SERDE.dumps_typed, value)
    with pure():
        assert outcome(SERDE.dumps_typed, value) == found
    return found


class Text(str):
    pass


class Number(IntEnum):
    ONE = 1


def nested(depth: int, make: Callable[[Any], Any], value: Any = 7) -> Any:
    for _ in range(depth):
        value = make(value)
    return value


_LENGTHS = (0, 1, 2, 3, 7, 8, 14, 15, 16, 31, 32, 33, 255, 256, 257, 65_535, 65_536)
_POWERS = sorted({sign * (1 << n) + d for n in range(67) for d in (-1, 0, 1) for sign in (1, -1)})
EDGES: list[Any] = [
    *_POWERS,
    *({power: power} for power in _POWERS),
    *(0.0, -0.0, 1e308, 5e-324, float("inf"), float("-inf"), float("nan")),
    *("x" * n for n in _LENGTHS),
    *("é" * n for n in _LENGTHS),
    *("é" * n + "x" for n in (15, 16, 127, 128, 32_767, 32_768)),
    *({"k" * n: n} for n in _LENGTHS),
    *([b"x" * n] for n in _LENGTHS),
    *([None] * n for n in _LENGTHS),
    *(dict.fromkeys(range(n)) for n in _LENGTHS),
    *((b"x" * n,) for n in range(40)),
    *((None,) * n for n in _LENGTHS),
    *("\x7f", "\x80", "ÿ", "Ā", "߿", "ࠀ", "\uffff", "\U00010000", "\U0010ffff", "a\0b"),
    *("\ud800", {"\udfff": 1}, "é\ud800", "é" * 70_000, "é" * 70_000 + "\ud800"),
    *(True, False, None, b"", [], {}, (), [[]], {"": {}}, [()], ((),)),
    *({True: 1, None: 2, 1.5: 3, b"k": 4, "k": 5, -7: 6}, {float("nan"): 1}, {"é": 1}),
    *(bytearray(b"x"), [bytearray(b"x")], {"a": {1: bytearray()}}, [memoryview(b"x")]),
    *(Text("x"), [Text("x")], {Text("x"): 1}, Number.ONE, [Number.ONE], {Number.ONE: 1}),
    *({(1,): 2}, {frozenset(): 1}, {1}, [1 << 64], {1 << 70: 1}, object(), [1j]),
    *(nested(n, lambda v: [v]) for n in (254, 255, 256, 300)),
    *(nested(n, lambda v: {"a": v}) for n in (254, 255, 256)),
    *(nested(n, lambda v: {1: v}) for n in (254, 255, 256)),
    *(nested(n, lambda v: (v,)) for n in (*range(3, 9), 99, 100, 101)),
    *(nested(n, lambda v: ([v], {"a": (v,)})) for n in (1, 2, 3)),
    *(nested(n, lambda v: ([[v]],)) for n in (1, 4, 5, 60)),
    *((nested(n, lambda v: [v]),) for n in (253, 254, 255)),
    *(nested(n, lambda v: (nested(200, lambda w: [w], v),)) for n in (4, 5, 9, 10, 11)),
]


@pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")
@pytest.mark.parametrize("at", range(0, len(EDGES), 40))
def test_edges_are_written_alike(at: int) -> None:
    for value in EDGES[at : at + 40]:
        written(value)
        written([value, "after"])


def test_what_is_plain_and_what_is_not() -> None:
    plain: list[Any] = [None, True, -(2**63), 2**64 - 1, 0.5, "é", b"x", [()], {"a": {1: None}}]
    other: list[Any] = [2**64, -(2**63) - 1, "\ud800", bytearray(), Text(), Number.ONE, {1}, 1j]
    for value in plain:
        assert pack(value, 4) == pack([value], 4)[1:]
    for value in other:
        for within in (value, [value], {"a": value}, (value,), [[1, {"a": (1, value)}]]):
            assert pack(within, 4) is None
    assert pack({(1,): 1}, 4) is None
    assert [pack(nested(3, lambda v: (v,)), n) is None for n in range(5)] == [True] * 3 + [
        False
    ] * 2


_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(), st.text(), st.binary(),
    st.sampled_from(_POWERS),
    st.one_of(st.binary().map(bytearray), st.just(Number.ONE), st.text().map(Text), st.just("\ud800")),
)  # fmt: skip
_KEYS = st.one_of(
    st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.binary(),
    st.tuples(st.integers()), st.just(Number.ONE),
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES,
    lambda v: st.one_of(
        st.lists(v),
        st.lists(v).map(tuple),
        st.dictionaries(st.text(), v),
        st.dictionaries(_KEYS, v),
    ),
    max_leaves=20,
)


@given(_VALUES)
@settings(max_examples=10_000 if LONG else 300, deadline=None)
def test_values_are_written_alike(value: Any) -> None:
    written(value)


def look(value: Any) -> Any:
    """A value so that two can be compared: with its types, and nan like nan."""
    if type(value) in (list, tuple):
        return type(value), [look(member) for member in value]
    if type(value) is dict:
        return dict, [(look(key), look(member)) for key, member in value.items()]
    return type(value), repr(value)


def read_alike(data: bytes) -> None:
    """Read with and without."""
    found = outcome(SERDE.loads_typed, ("msgpack", data))
    with pure():
        expected = outcome(SERDE.loads_typed, ("msgpack", data))
    assert look(found) == look(expected), data


@given(st.binary(max_size=100))
@example(b"\xc1")
@example(b"\x81\x91\x01\x02")  # a list as a key
@example(b"\x82\x01\x02\xc3\x03")  # two keys that are equal
@example(b"\x93\xca\x3f\xc0\x00\x00\xd0\xff\xcf" + b"\xff" * 8)
@settings(max_examples=20_000 if LONG else 500, deadline=None)
def test_random_bytes_are_read_alike(data: bytes) -> None:
    read_alike(data)


@pytest.mark.parametrize("depth", [1, 999, 1_000, 1_001, 1_020, 1_021, 1_022, 5_000])
def test_depths_are_read_alike(depth: int) -> None:
    def measured() -> int | str:
        value = outcome(SERDE.loads_typed, ("msgpack", b"\x91" * depth + b"\x01"))
        found = 0
        while type(value) is list:
            (value,), found = value, found + 1
        return found if value == 1 else value

    found = measured()
    with pure():
        assert measured() == found
    assert found == depth if depth <= 1_021 else type(found) is str


PLAIN = [data for value in EDGES if type(data := pack(value, 0)) is bytes and len(data) < 5_000]


@pytest.mark.parametrize("seed", range(40 if LONG else 3))
def test_mutated_blobs_are_read_alike(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(2_000 if LONG else 300):
        plain = bytearray(source.choice(PLAIN))
        if plain:
            plain[source.randrange(len(plain))] = source.randrange(256)
        with contextlib.suppress(RecursionError):
            read_alike(bytes(plain))
            read_alike(_mutated(source, source.choice(BLOBS)))


@given(st.text(), st.binary(max_size=8))
@example("", b"\xed\xa0\x80")  # half a pair
@example("", b"\xc0\x80")  # longer than need be
@example("", b"\xe0\x80\x80")
@example("", b"\xf0\x80\x80\x80")
@example("", b"\xf4\x90\x80\x80")
@example("\U0010ffff", b"")
@example("é" * 130 + "x", b"\xc3")
@settings(max_examples=20_000 if LONG else 500, deadline=None)
def test_text_is_read_as_python_reads_it(text: str, more: bytes) -> None:
    for data in (text.encode(), text.encode() + more, more + text.encode()):
        stored = b"\xda" + len(data).to_bytes(2, "big") + data
        try:
            expected = data.decode()
        except UnicodeDecodeError:
            with pytest.raises(ValueError):
                unpack(stored, (None,))
        else:
            found = unpack(stored, (None,))
            assert found == expected
            assert {found: 1}[expected] == 1
            assert found.isascii() == expected.isascii()


def _hook(code: int, data: bytes) -> Any:
    raise ValueError(code)


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_take_no_room(name: str) -> None:
    with contextlib.suppress(ValueError):
        unpack(BOMBS[name], (_hook,) * 5)
    tracemalloc.start()
    try:
        with contextlib.suppress(ValueError):
            unpack(BOMBS[name], (_hook,) * 5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * len(BOMBS[name]) + 200_000  # a list of one takes that much


def test_no_room_is_taken_twice_on_the_word_of_lengths() -> None:
    """Each list says that all of the rest belongs to it."""
    count = 800
    data = b"".join(
        b"\xdd" + (5 * (count - n - 1) + 50_000 - count).to_bytes(4, "big") for n in range(count)
    )
    data += b"\xc0" * 50_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            unpack(data, (_hook,))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(data)


@pytest.mark.parametrize("inner", [b"\xdd\x00\x10\x00\x00", b"\xdf\x00\x08\x00\x00"])
@pytest.mark.parametrize("inside", [False, True], ids=["here", "in a tuple"])
def test_no_room_is_taken_where_others_lack_bytes_already(inner: bytes, inside: bool) -> None:
    """A list of 5,000 has 150 bytes left for its other members, and one of them asks for more."""
    data = b"\xdc\x13\x88\xc5\x13\x24" + b"x" * 4_900 + inner + b"\0" * 150
    if inside:
        data = b"\xc8" + len(data).to_bytes(2, "big") + b"\x20" + data
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):
            unpack(data, (_hook,) * 2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * len(data)


@pytest.mark.parametrize("make", [lambda text: text, lambda text: {"a": [1, text], "b": 2}])
@pytest.mark.parametrize("large", ["x" * 5_000_000, "é" * 2_500_000, b"x" * 5_000_000])
def test_a_large_value_is_packed_without_room_to_spare(make: Any, large: Any) -> None:
    """It may be all that there is memory for."""
    value = make(large)
    most = 1.5 if large[:1] != "é" else 2.5  # as bytes it is there twice for a moment
    tracemalloc.start()
    try:
        packed = pack(value, 0)
        _, peak = tracemalloc.get_traced_memory()
        if type(value) is dict:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            head, elements, _ = native.elements(value, 0, None, None, None)
            _, beside = tracemalloc.get_traced_memory()
            assert head + b"".join(elements) == packed
            assert beside - before < most * len(packed)
    finally:
        tracemalloc.stop()
    assert peak < most * len(packed)


def test_what_follows_a_value_is_refused() -> None:
    hooks = (_hook,) * 5
    assert unpack(pack((1,), 1), hooks) == (1,)
    for data in (b"", b"\x01\x01", b"\xd5\x20\x90\x01", b"\xd4\x20\x01", b"\x91", b"\x81\x01"):
        with pytest.raises(ValueError):
            unpack(data, hooks)


def test_hooks_are_those_of_their_level() -> None:
    hooks = tuple((lambda code, data, n=n: (n, code, data)) for n in range(3))
    other = b"\xd4\x21\x00"
    within = pack(((1,),), 2).replace(b"\x01", other)  # of the wrong length now
    assert unpack(other, hooks) == (0, 33, b"\0")
    with pytest.raises(ValueError):
        unpack(within, hooks)
    one = b"\xd6\x20\x91" + other
    two = b"\xc7" + bytes([len(one) + 1]) + b"\x20\x91" + one
    three = b"\xc7" + bytes([len(two) + 1]) + b"\x20\x91" + two
    assert unpack(one, hooks) == ((1, 33, b"\0"),)
    assert unpack(two, hooks) == (((2, 33, b"\0"),),)
    assert unpack(three, hooks) == (((2, 32, b"\x91" + other),),)
    assert unpack(b"\xd4\xff\x00", hooks) == (0, -1, b"\0")


def test_views_are_read_and_wrong_arguments_are_refused() -> None:
    data = pack({"a": ["é", 1]}, 0)
    for view in (memoryview(data), bytearray(data), memoryview(b"x" + data)[1:]):
        assert unpack(view, (_hook,)) == {"a": ["é", 1]}
    for wrong in ((1, (_hook,)), (data, ()), (data, [_hook]), (data,)):
        with pytest.raises(TypeError):
            unpack(*wrong)
    for arguments in ((), (1,), (1, "x")):
        with pytest.raises(TypeError):
            pack(*arguments)


def _raising(code: int, data: bytes) -> Any:
    raise KeyError(code)


def test_packing_and_unpacking_leak_no_references() -> None:
    leaf, key = "a leaf that is long enough", "a key"
    members = {key: [leaf, (leaf, 1.5)], "é": leaf}
    other = [leaf, members, (leaf,), object()]
    stored = pack([members] * 20, 4)
    broken = [stored[:-1], stored + b"x", stored[:60] + b"\xc1" + stored[61:]]
    given = pack([members, members], 4)[:-40] + b"\xd4\x21\x00"

    def work() -> None:
        assert pack(members, 4)
        assert pack([members] * 50, 4)
        assert pack(other, 4) is None
        assert pack(members, 0) is None
        assert pack(["\ud800" * 3], 0) is None
        assert unpack(stored, (_hook,) * 5)
        for data in broken:
            with contextlib.suppress(ValueError):
                unpack(data, (_hook,) * 5)
        for at in range(0, len(given), 5):
            with contextlib.suppress(ValueError, KeyError):
                unpack(given[:at] + b"\xd4\x21\x00" + given[at:], (_raising,) * 5)
        assert unpack(b"\x92\xd4\x21\x00\xd4\x22\x00", (lambda *_: leaf,)) == [leaf, leaf]

    for _ in range(3):
        work()
    counts = sys.getrefcount(leaf), sys.getrefcount(key)
    tracemalloc.start()
    try:
        for _ in range(3):
            work()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(50):
            work()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (sys.getrefcount(leaf), sys.getrefcount(key)) == counts
    assert after - before < 50 * 24  # less than one small object for each round


@dataclass
class Stopped:
    a: int = 1


def test_an_interrupt_while_reading_is_raised_once() -> None:
    registry = TypeRegistry()
    registry.register(
        Stopped,
        encode=lambda value: value.a,
        decode=lambda a: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    serde = JsonPlusSerializer(registry=registry)
    stored = serde.dumps_typed([Stopped(), (Stopped(),)])
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            serde.loads_typed(stored)
        assert serde.loads_typed(("msgpack", b"\x01")) == 1
        with pytest.raises(SerdeError):
            serde.loads_typed(("msgpack", b"\x01\x01"))


def test_objects_inside_tuples_count_as_deep_as_they_are() -> None:
    """A tuple that the accelerator reads is a level of nesting like any other."""
    value: Any = 1
    for _ in range(100):
        value = (value,) if len(repr(value)) % 2 else frozenset({value})
    data = written(value)
    assert data[0] == "msgpack"
    assert SERDE.loads_typed(data) == value
    assert written([(value,)]).startswith("SerializationError")
    assert ext.TUPLE == 32


def test_without_the_accelerator_the_same_tests_pass() -> None:
    """`MILEPOST_PURE=1`, and what a machine without a compiler has."""
    here = Path(__file__).parent
    files = [here / f"test_serde_{name}.py" for name in ("elements", "exact", "security", "strict")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", *map(str, files)],
        env={**os.environ, "MILEPOST_PURE": "1"},
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3_000:]
    assert " passed" in done.stdout or "100%" in done.stdout


def test_the_environment_switches_the_accelerator_off() -> None:
    code = "from milepost._internal import native; print(native.AVAILABLE, native.pack)"
    for value, expected in (("1", "False None"), ("0", "True <built-in function pack>")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "MILEPOST_PURE": value},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected


def test_one_that_was_built_from_older_source_is_left_out() -> None:
    code = """
import sys, types
sys.modules["milepost._native"] = types.SimpleNamespace(pack=1, unpack=2)
from milepost._internal import native
print(native.AVAILABLE, native.pack)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False None"
