"""Copies of lists beside their bytes: what is read and stored is the same as without them."""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr

from milepost._internal import native
from milepost.checkpoint._delta.copies import Copies
from milepost.checkpoint._delta.encode import Codec, Encoded
from milepost.checkpoint._sql.cache import ThreadCache
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry

if not native.AVAILABLE:
    pytest.skip("the accelerator was not built, or is switched off", allow_module_level=True)


class Note(BaseModel):
    text: str = ""
    more: Any = None


class Open(Note):
    model_config = ConfigDict(extra="allow")


class Private(Note):
    _seen: int = PrivateAttr(default=0)


class Watched(Note):
    freed: Any = None

    def __del__(self) -> None:
        self.freed.append(self.text)


REGISTRY = TypeRegistry()
for cls in (Note, Open, Private, Watched):
    REGISTRY.register(cls)
SERDE = JsonPlusSerializer(registry=REGISTRY)
PLACE = ("blob", "thread", "", "messages", "1")


@pytest.fixture
def copies() -> Copies:
    return Copies(1 << 23)


@pytest.fixture
def codec(copies: Copies) -> Codec:
    return Codec(SERDE, copies)


WITHOUT = Codec(SERDE)


def known(codec: Codec, value: list[Any]) -> Encoded:
    """An encoded list of which there are copies: it was read again, and once more."""
    encoded = codec.encode(value)
    for _ in range(2):
        codec.decode_again(encoded, PLACE)
    return encoded


def described(value: Any) -> Any:
    """A value as something that is equal only if types, order and bits are the same as well."""
    if isinstance(value, BaseModel):
        slots = (
            value.__pydantic_extra__,
            value.__pydantic_private__,
            value.__pydantic_fields_set__,
        )
        return type(value), described(value.__dict__), slots
    if type(value) is dict:
        return dict, [(described(key), described(member)) for key, member in value.items()]
    if type(value) in (list, tuple):
        return type(value), [described(member) for member in value]
    return type(value), value.hex() if type(value) is float else value


def containers(value: Any) -> Iterator[int]:
    """The ids of all that can be changed in a value."""
    if isinstance(value, BaseModel):
        yield from (id(value), id(value.__pydantic_fields_set__))
        yield from containers(value.__dict__)
    elif type(value) in (dict, list):
        yield id(value)
        for member in value.values() if type(value) is dict else value:
            yield from containers(member)
    elif type(value) is tuple:
        for member in value:
            yield from containers(member)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=6,
)
odd = st.sampled_from([bytearray(b"a"), {1, 2}, "\ud800", 1 << 70, Private(), Note(more=Note())])
models = st.builds(Note, text=st.text(), more=plain) | st.builds(Open, more=plain)


@settings(max_examples=40)
@given(st.lists(st.lists(plain | models | odd, max_size=7), min_size=2, max_size=5), st.data())
def test_versions_have_the_same_bytes_and_are_read_the_same(
    versions: list[list[Any]], data: st.DataObject
) -> None:
    codec = Codec(SERDE, Copies(1 << 20))
    value: list[Any] = []
    before: Encoded | None = None
    for version in versions:
        # What a program does: keeps some, as they are or as other objects, and adds others.
        kept = value[: data.draw(st.integers(0, len(value)))]
        if data.draw(st.booleans()) and before is not None:
            kept = codec.decode_again(before, PLACE)[: len(kept)]
        value = kept + version
        before = codec.encode(value, after=before)
        expected = WITHOUT.encode(value)
        assert before == expected
        for _ in range(data.draw(st.integers(0, 2))):
            codec.decode_again(before, PLACE)
        read, decoded = codec.decode_again(before, PLACE), WITHOUT.decode_again(expected, PLACE)
        assert described(read) == described(decoded)
        mine, theirs = list(containers(read)), set(containers(value))
        assert len(mine) == len(set(mine))
        assert theirs.isdisjoint(mine)


LOOK_ALIKES = [
    (1, True), (1, 1.0), (0.0, -0.0), ("a", b"a"), ([1], (1,)), ({"a": 1}, {"a": True}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1: 0}, {True: 0}), (None, False), ([], {}),
    ("x" * 9, "x" * 8 + "y"), (Note(), Note(text="")), (Note(), Open()),
    (Note(more=[1]), Note(more=[True])),
]  # fmt: skip


@pytest.mark.parametrize("pair", LOOK_ALIKES, ids=repr)
def test_what_only_looks_the_same_is_stored_as_what_it_is(
    codec: Codec, pair: tuple[Any, Any]
) -> None:
    for old, new in (pair, pair[::-1]):
        before = known(codec, [old] * 5)
        after = codec.encode([new, old, new, old, new], after=before)
        assert after == WITHOUT.encode([new, old, new, old, new])
        assert described(codec.decode_again(after, PLACE)[::2]) == described([new] * 3)


CHANGES: list[Callable[[list[Any]], Any]] = [
    lambda value: value[2]["list"].append(1),
    lambda value: value[2]["dict"].update(b=1),
    lambda value: value[2].update(text="other"),
    lambda value: value[2].update(text=value[2].pop("text")),
    lambda value: value[2]["tuple"][0].append(1),
    lambda value: setattr(value[3], "text", "other"),
    lambda value: value[3].more.append(1),
    lambda value: value[3].__pydantic_fields_set__.discard("text"),
    lambda value: value[3].__dict__.pop("more"),
    lambda value: value.pop(0),
    lambda value: value.insert(1, None),
    lambda value: value.reverse(),
    lambda value: value.clear(),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_change_in_place_is_seen_and_does_not_reach_the_next_reader(
    codec: Codec, number: int
) -> None:
    element = {"text": "a", "list": [], "dict": {"a": [1]}, "tuple": ([], 1)}
    value: list[Any] = ["a", 1, element, Note(text="n", more=[1]), element["list"], 1.5]
    before = known(codec, value)
    read = codec.decode_again(before, PLACE)
    assert described(read) == described(value)
    CHANGES[number](read)
    assert described(codec.decode_again(before, PLACE)) == described(value)
    after = codec.encode(read, after=before)
    assert after == WITHOUT.encode(read)
    expected = WITHOUT.decode_again(after, PLACE)
    assert described(codec.decode_again(after, PLACE)) == described(expected)


def test_what_has_not_changed_is_neither_encoded_nor_decoded(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = [{"role": "user", "content": "x" * n} for n in range(50)]
    before = known(codec, value)
    monkeypatch.setattr(codec, "decode", None)
    read = codec.decode_again(before, PLACE)
    assert read == value
    assert read[40]["content"] is codec.decode_again(before, PLACE)[40]["content"]
    after = codec.encode([*read, "new"], after=before)
    assert all(map(lambda a, b: a is b, before.parts.elements, after.parts.elements))


def test_a_version_that_was_followed_is_decoded(codec: Codec) -> None:
    """Its copies are those of the next one now."""
    before = known(codec, [*"abcd"])
    codec.encode([*"efghi"], after=before)
    assert codec.decode_again(before, PLACE) == [*"abcd"]


def test_a_class_that_was_registered_again_is_read_as_it_is_now(copies: Copies) -> None:
    registry = TypeRegistry()
    registry.register(Note)
    codec = Codec(JsonPlusSerializer(registry=registry), copies)
    before = known(codec, [Note(text=text) for text in "abcd"])
    registry.register(Note, version=2)
    registry.add_migration(Note, 1, lambda fields: {**fields, "more": "migrated"})
    assert {note.more for note in codec.decode_again(before, PLACE)} == {"migrated"}
    later = codec.encode([Note(text=text) for text in "abcd"], after=before)
    assert later == codec.encode([Note(text=text) for text in "abcd"])


def test_no_copies_are_made_of_models_that_notice(codec: Codec) -> None:
    freed: list[str] = []
    value: list[Any] = [Watched(text=text, freed=freed) for text in "abcd"]
    SERDE.dumps_typed(value)
    after = known(codec, value)
    codec.encode([], after=after)
    del after
    gc.collect()
    assert freed == []


def test_a_serializer_that_reads_in_its_own_way_is_asked(copies: Copies) -> None:
    class Shouting(JsonPlusSerializer):
        def decode_pieces(self, kind: str, pieces: Any) -> Any:
            return [text.upper() for text in super().decode_pieces(kind, pieces)]

    codec = Codec(Shouting(), copies)
    encoded = known(codec, [*"abcd"])
    assert codec.decode_again(encoded, PLACE) == [*"ABCD"]
    assert copies.size == 0


def test_copies_take_a_part_of_the_limit_and_the_oldest_are_dropped() -> None:
    cache = ThreadCache(limit=800_000)
    codec = Codec(SERDE, cache.copies)
    found = []
    for number in range(30):
        value = [{"content": f"{number} {n}" + "x" * 200} for n in range(50)]
        found.append(known(codec, value))
    assert 100_000 < cache.copies.size <= 200_000
    kept = [cache.copies.take(one.parts.elements, REGISTRY) is not None for one in found]
    assert cache.copies.size == 0
    assert kept == sorted(kept)
    assert 1 < sum(kept) < 10
    known(codec, [*"abcd"])
    cache.forget("any")
    assert cache.copies.size == 0


@pytest.mark.parametrize(
    "element",
    [
        lambda n: {"role": "user", "content": f"{n}" * 200},
        lambda n: {"role": "user", "content": f"é{n}" * 20, "more": [n + 1000, {"a": 1.5 * n}]},
        lambda n: Note(text=f"{n}" * 50, more={"a": f"{n}"}),
    ],
)
def test_what_copies_take_is_counted(codec: Codec, copies: Copies, element: Any) -> None:
    value = [element(n) for n in range(1_000)]
    codec.encode(value)
    tracemalloc.start()
    try:
        encoded = known(codec, value)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(encoded.parts.elements) == 1_000
    assert 0.9 * taken < copies.size < 1.1 * taken


def test_copies_of_lists_leak_no_references() -> None:
    text = "x" * 1_000
    value = [{"a": text, "b": [text, (text,)]}, Note(text=text), text, (text,)] * 10
    odd = [*value, {1}]

    def work() -> None:
        codec = Codec(SERDE, Copies(1 << 20))
        before = codec.encode([])
        for version in (value, value[:20], [*value, 1], odd, value):
            before = codec.encode(version, after=before)
            assert len(codec.decode_again(before, PLACE)) == len(version)

    work()
    count = sys.getrefcount(text)
    for _ in range(5):
        work()
    gc.collect()
    assert sys.getrefcount(text) == count


def test_what_is_no_call_of_it_is_refused() -> None:
    for call in (lambda: native.copies([]), lambda: native.copies((), None)):
        with pytest.raises(TypeError):
            call()
    assert native.copies([{1}], None) is None
    assert native.copies([Note()], {}) is None


def test_nothing_else_runs_while_a_list_is_copied() -> None:
    """No garbage is collected, which could run anything."""

    class Trap:
        def __init__(self, value: list[Any]) -> None:
            self.itself, self.value = self, value

        def __del__(self) -> None:
            self.value.clear()

    before = gc.get_threshold()
    for work in (
        lambda value: native.copies(value, None),
        lambda value: native.elements(value, 0, None, None, [])[1],
    ):
        value = [{"a": [n]} for n in range(300)]
        gc.collect()
        Trap(value)
        gc.set_threshold(100)
        try:
            found = work(value)
        finally:
            gc.set_threshold(*before)
        assert len(found) == 300
        assert gc.isenabled()
