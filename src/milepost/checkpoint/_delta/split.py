"""Finds the elements of a stored value, and a write among them."""

from __future__ import annotations

from typing import Final

from milepost._internal import native
from milepost.checkpoint._delta.diff import Delta, Parts
from milepost.checkpoint._delta.encode import Encoded
from milepost.checkpoint.serde._msgpack import skim

_NEAR: Final = 256
"""How many elements from the end of a list to look for a write."""


def container_head(data: bytes) -> bytes | None:
    """The first bytes of a msgpack list or dict: its kind and its number of elements."""
    if not data:
        return None
    kind, _size, body = skim.head(data, 0)
    return data[:body] if kind in (skim.ARRAY, skim.MAP) else None


def split_like(data: bytes, new: Parts) -> Parts:
    """A stored list or dict, cut where a new version of it has the same elements.

    Cutting msgpack apart in Python is slow, and mostly the elements are still the same.
    """
    found = None if native.cut_up is None else native.cut_up(data)
    if found is not None:
        return Parts(*found)
    head = container_head(data)
    if head is None:
        return Parts(b"", [data])
    kind, size, at = skim.head(data, 0)
    if size <= len(new.elements):
        same = new.elements[:size]
        joined = b"".join(same)
        if len(joined) == len(data) - at and data.endswith(joined):
            return Parts(head, same)  # it has only grown: compared in one go
    elements = []
    for element in new.elements:
        if not data.startswith(element, at):
            break
        elements.append(element)
        at += len(element)
    pair = 2 if kind == skim.MAP else 1
    while at < len(data):
        end = skim.skip(data, at, pair)
        if end <= at:
            return Parts(b"", [data])
        elements.append(data[at:end])
        at = end
    return Parts(head, elements)


def as_parts(typed: tuple[str, bytes]) -> Encoded:
    """A stored value, cut where it can be."""
    kind, data = typed
    parts = split_like(data, Parts(b"", [])) if kind == "msgpack" else Parts(b"", [data])
    return Encoded(kind, parts, len(data))


def cut(encoded: Encoded) -> Encoded:
    """A stored value, cut where that costs little: with the accelerator."""
    if encoded.parts.head or encoded.kind != "msgpack" or native.cut_up is None:
        return encoded
    found = native.cut_up(encoded.parts.join())
    return encoded if found is None else encoded._replace(parts=Parts(*found))


def place_in(value: Encoded, write: Encoded) -> Delta | None:
    """The delta that finds a write inside the version of a channel that it led to."""
    if value is write:
        return [(0, value.size)]
    parts = write.parts
    if value.kind != write.kind:
        return None
    if value.size == write.size and value.parts == parts:
        return [(0, value.size)]
    count = len(parts.elements)
    if not (parts.head and value.parts.head and count):
        return None
    size = write.size - len(parts.head)
    if value.parts.elements[-count:] == parts.elements:  # mostly it does
        return [parts.head, (value.size - size, size)]
    wanted = list(parts.elements)
    near = value.parts.elements[-_NEAR - count :]
    after = 0  # the bytes behind the place that is compared
    for end in range(len(near), max(count, len(near) - _NEAR) - 1, -1):
        if near[end - count : end] == wanted:
            return [parts.head, (value.size - after - size, size)]
        after += len(near[end - 1])
    return None
