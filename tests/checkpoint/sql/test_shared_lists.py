"""Versions that are beginnings of one another: read exactly, each with elements of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.checkpoint._delta.diff import difference
from milepost.checkpoint._delta.encode import Codec
from milepost.checkpoint._delta.rope import Rope
from milepost.checkpoint._sql.shared_list import ListVersion, copier, whole
from milepost.checkpoint.serde._msgpack.skim import elements_head
from milepost.checkpoint.serde.jsonplus import JsonPlusSerializer
from milepost.checkpoint.serde.registry import TypeRegistry
from milepost.errors import DeserializationError

if TYPE_CHECKING:
    from milepost.checkpoint._delta.diff import Delta


@dataclass
class Note:
    tags: list[str] = field(default_factory=list)


registry = TypeRegistry()
registry.register(Note)
codec = Codec(JsonPlusSerializer(registry=registry))

atom = (
    st.none() | st.booleans() | st.integers(-5, 300) | st.text(max_size=4) | st.binary(max_size=3)
)
element = (
    st.dictionaries(st.text(max_size=2), atom, max_size=3)
    | atom
    | st.lists(atom, max_size=2)
    | st.builds(Note, st.lists(st.text(max_size=2), max_size=2))
)
plain = st.dictionaries(st.text(max_size=2), atom, max_size=3)
elements = st.lists(element, min_size=1, max_size=20) | st.lists(plain, min_size=1, max_size=20)


def encoded(value: Any) -> bytes:
    return codec.encode(value).parts.join()


def grown(value: Any) -> ListVersion:
    made = whole(encoded(value))
    assert isinstance(made, ListVersion)
    return made


def head(count: int) -> bytes:
    return elements_head("list", count)


def beginning(value: list[Any], count: int) -> Delta:
    """A version as a part of a later one."""
    body = encoded(value[:count])[len(head(count)) :]
    return [step for step in (head(count), (len(head(len(value))), len(body))) if step]


def ten() -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"text {number}"} for number in range(10)]


@given(elements, st.lists(st.integers(1, 20), min_size=1, max_size=6), st.data())
def test_every_version_is_read_exactly_in_any_order(value, counts, data):
    counts = sorted(min(count, len(value)) for count in counts)
    version: ListVersion | Rope = grown(value[: counts[0]])
    versions = [version]
    before = value[: counts[0]]
    for count in counts[1:]:
        now = value[:count]
        program = difference(codec.encode(before).parts, codec.encode(now).parts)
        version = version.apply(program)
        versions.append(version)
        before = now
    parts = [version.apply(beginning(before, n)) for n in range(len(before) + 1)]
    asked = data.draw(st.permutations([*zip(counts, versions, strict=True), *enumerate(parts)]))
    for count, made in asked:
        assert made.read() == encoded(value[:count])
        assert isinstance(made, ListVersion)
        assert repr(made.elements(codec)) == repr(value[:count])


@given(st.lists(plain, min_size=1, max_size=8), st.lists(plain, max_size=8))
def test_any_other_change_is_read_as_a_rope_is(old, new):
    program = difference(codec.encode(old).parts, codec.encode(new).parts)
    made = grown(old).apply(program)
    assert made.read() == encoded(new)
    assert len(made) == len(encoded(new))
    if isinstance(made, ListVersion):
        assert made.elements(codec) == new


def test_what_was_handed_out_is_nobody_elses():
    value = ten()
    version = grown(value)
    part = version.apply(beginning(value, 7))
    assert isinstance(part, ListVersion)
    for made in (version, part, version):
        read = made.elements(codec)
        assert read == value[: len(read)]
        read[0]["content"] = "mine"
        read.clear()


@pytest.mark.parametrize("inside", [["a"], {"b": 1}, Note(["c"])], ids=["list", "dict", "object"])
def test_what_is_inside_an_element_is_not_shared_either(inside):
    value = [*ten(), {"inside": inside}]
    version = grown(value)
    first, second = (version.elements(codec) for _ in range(2))
    assert first == second == value
    assert first[-1]["inside"] is not second[-1]["inside"]


@pytest.mark.parametrize(
    ("some", "plain"),
    [
        ([], True),
        (["a", 1, None, b"", 0.5, True], True),
        (ten(), True),
        ([{"a": 1}, {"b": 1, "c": 2}], True),
        ([{}, {}], True),
        ([{"a": bytearray()}], False),
        ([{"a": 1}, {"a": []}], False),
        ([{"a": 1, "b": 1}, {"a": 1, "b": ()}], False),
        ([{"a": 1, "b": 1}, {"a": 1, "c": {}}], False),
        ([{(): 1}], False),
        ([{"a": 1}, "b"], False),
        ([[]], False),
    ],
    ids=repr,
)
def test_only_plain_elements_are_copied(some, plain):
    copy = copier(some)
    assert (copy is not None) is plain
    if copy is not None:
        made = copy(some, len(some))
        assert made == some
        assert made is not some
        assert not any(
            one is other and type(one) is dict for one, other in zip(made, some, strict=True)
        )
        assert copy(some, len(some) // 2) == some[: len(some) // 2]


def test_common_elements_are_decoded_once(monkeypatch):
    counts: list[int] = []
    decode = codec.decode_elements
    monkeypatch.setattr(
        codec, "decode_elements", lambda n, pieces: counts.append(n) or decode(n, pieces)
    )
    value = ten()
    version = grown(value)
    for count in (10, 9, 8, 9, 10):
        part = version.apply(beginning(value, count))
        assert isinstance(part, ListVersion)
        assert part.elements(codec) == value[:count]
    # The list, and one element for each new place to check that an element begins there.
    assert counts == [10, 1, 1]


@pytest.mark.parametrize("asked_before", [False, True])
@pytest.mark.parametrize(("count", "size"), [(5, -1), (4, 0), (6, 0), (5, 1), (9, None)])
def test_a_part_that_ends_inside_an_element_is_refused(asked_before, count, size):
    value = ten()
    version = grown(value)
    if asked_before:
        version.elements(codec)
    start, length = beginning(value, 5)[1]
    length = version.size if size is None else length + size
    part = version.apply([head(count), (start, length)])
    assert isinstance(part, ListVersion)
    with pytest.raises(DeserializationError):
        part.elements(codec)
    with pytest.raises(DeserializationError):
        codec.decode("msgpack", part.buffers())


def test_a_part_beyond_the_end_is_refused():
    version = grown(ten())
    with pytest.raises(DeserializationError, match="refers to bytes"):
        version.apply([head(10), (1, version.size + 1)])


def test_two_that_grow_out_of_one_do_not_disturb_each_other():
    value = ten()
    part = grown(value).apply(beginning(value, 4))
    for added in ({"role": "a"}, {"role": "b"}):
        now = [*value[:4], added]
        parts = codec.encode(now).parts
        branch = part.apply([parts.head, (1, len(part) - 1), parts.elements[-1]])
        assert isinstance(branch, ListVersion)
        assert branch.read() == encoded(now)
        assert branch.elements(codec) == now


@pytest.mark.parametrize("kind", ["plain", "mixed"])
def test_branches_are_read_exactly_and_what_they_share_is_decoded_once(kind, monkeypatch):
    counts: list[int] = []
    decode = codec.decode_elements
    monkeypatch.setattr(
        codec, "decode_elements", lambda n, pieces: counts.append(n) or decode(n, pieces)
    )
    value: list[Any] = ten()
    part = grown(value).apply(beginning(value, 8))
    branches = []
    for number in range(6):
        added = [{"n": number}, {"n": [number]}] if kind == "mixed" else [{"n": number}]
        now = [*value[:8], *added]
        parts = codec.encode(now).parts
        body = b"".join(parts.elements[8:])
        branches.append((part.apply([parts.head, (1, len(part) - 1), body]), now))
    read = []
    for branch, now in branches:
        assert isinstance(branch, ListVersion)
        read.append(branch.elements(codec))
        assert read[-1] == now
    if kind == "plain":
        assert sum(counts) <= 10 + 2 + 6
    assert len({id(one) for made in read for one in made}) == sum(map(len, read))


def test_versions_that_grow_are_decoded_once_in_any_order(monkeypatch):
    counts: list[int] = []
    decode = codec.decode_elements
    monkeypatch.setattr(
        codec, "decode_elements", lambda n, pieces: counts.append(n) or decode(n, pieces)
    )
    value = [{"content": f"text {number}"} for number in range(60)]
    version: ListVersion | Rope = grown(value[:20])
    for count in range(21, 61):
        before, now = codec.encode(value[: count - 1]).parts, codec.encode(value[:count]).parts
        version = version.apply(difference(before, now))
        assert isinstance(version, ListVersion)
        assert version.elements(codec) == value[:count]
    assert sum(counts) == 60


def test_a_long_line_of_versions_that_nobody_has_read_is_no_trouble():
    value = ["x"]
    version: ListVersion | Rope = grown(value)
    for _ in range(3000):
        before = codec.encode(value).parts
        value.append("x")
        version = version.apply(difference(before, codec.encode(value).parts))
        assert isinstance(version, ListVersion)
    assert isinstance(version, ListVersion)
    assert version.elements(codec) == value


def test_a_dict_grows_too_but_is_decoded_whole():
    old, new = {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}
    before = grown(old)
    program = difference(codec.encode(old).parts, codec.encode(new).parts)
    after = before.apply(program)
    assert isinstance(after, ListVersion)
    assert after.grows_from(before, program)
    assert not after.is_list
    assert codec.decode("msgpack", after.buffers()) == new


def test_threads_that_read_versions_at_once_do_not_disturb_each_other():
    value = [{"content": f"text {number}"} for number in range(60)]
    version = grown(value)
    parts = [version.apply(beginning(value, count)) for count in range(61)]

    def read(count: int) -> bool:
        part = parts[count]
        assert isinstance(part, ListVersion)
        return part.elements(codec) == value[:count]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, [*range(61), *reversed(range(61))] * 3))
