"""Stored bytes taken apart, changed at one place, and put together with the lengths that then hold.

A change of random bytes mostly breaks a length, and is refused for that. Inside an extension only a
change that is put right all around it gets as far as the reader of the payload.
"""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field

from milepost.checkpoint.serde._msgpack import ext, skim


@dataclass
class Node:
    """A value: a head with a count, and members; or an extension; or bytes as they are."""

    kind: int
    first: int
    """The byte that it begins with."""
    raw: bytes = b""
    """All bytes of a scalar, the payload of an extension that is not msgpack."""
    code: int = 0
    members: list[Node] = field(default_factory=list)
    surplus: bytes = b""
    """What follows the value in the payload of an extension."""
    off: int = 0
    """By how much the count in the head is wrong."""
    short: int = 0
    """How many bytes the payload of an extension lacks at its end."""

    def bytes(self) -> bytes:
        inside = b"".join(node.bytes() for node in self.members)
        if self.kind == skim.SCALAR:
            return self.raw
        if self.kind == skim.EXT:
            payload = (inside or self.raw) + self.surplus
            payload = payload[: len(payload) - self.short]
            return b"\xc9" + len(payload).to_bytes(4, "big") + bytes([self.code]) + payload
        count = max(0, len(self.members) // (2 if self.kind == skim.MAP else 1) + self.off)
        short, long = (0x80, 0xDE) if self.kind == skim.MAP else (0x90, 0xDC)
        if self.first & 0xF0 == short and count < 16:
            return bytes([short | count]) + inside
        width = 2 if self.first == long and count < 1 << 16 else 4
        return bytes([long if width == 2 else long + 1]) + count.to_bytes(width, "big") + inside

    def all(self) -> list[Node]:
        return [self, *(one for node in self.members for one in node.all())]


def parse(data: bytes, at: int = 0) -> tuple[Node, int]:
    """The value that begins at `at`, and where it ends; ValueError if it is none."""
    if at >= len(data):
        raise ValueError("it ends too soon")
    first = data[at]
    kind, size, body = skim.head(data, at)
    node = Node(kind, first)
    if kind in (skim.ARRAY, skim.MAP):
        for _ in range(size * (2 if kind == skim.MAP else 1)):
            member, body = parse(data, body)
            node.members.append(member)
        return node, body
    if kind == skim.SCALAR:
        node.raw = data[at : body + size]
        return node, body + size
    node.code, payload = data[body], data[body + 1 : body + 1 + size]
    node.raw = payload
    if node.code in ext.NESTED:
        try:
            member, end = parse(payload)
        except ValueError:
            member, end = node, -1
        if end == len(payload):
            node.members = [member]
    return node, body + 1 + size


_ODD = [bytes([n]) for n in range(256)] + [
    b"\x91\x01",
    b"\x92\xc0\x01",
    b"\x81\x01\x02",
    b"\xca\0\0\0\0",
]


def changed(source: random.Random, data: bytes, others: list[Node]) -> bytes:
    """`data` with one to three changes in its structure."""
    tree = parse(data)[0]
    for _ in range(source.randint(1, 3)):
        nodes = tree.all()
        extensions = [node for node in nodes if node.kind == skim.EXT]
        node = source.choice(nodes)
        match source.randrange(8):
            case 0 | 1 if extensions:
                node = source.choice(extensions)
                node.surplus = source.choice([b"\xc0", source.randbytes(2), source.choice(_ODD)])
            case 2 if extensions:
                source.choice(extensions).short = source.randint(1, 3)
            case 3 if extensions:
                source.choice(extensions).code = source.choice(
                    [*ext.NESTED, *range(30, 70), source.randrange(256)]
                )
            case 4:
                node.off = source.choice([-1, 1, 1, 1 << 16])
            case 5:
                other = deepcopy(source.choice(source.choice(others).all()))
                node.__dict__.update(other.__dict__)
            case 6 if node.members:
                node.members = source.sample(node.members, source.randint(0, len(node.members)))
            case 7 if maps := [one for one in nodes if one.kind == skim.MAP and one.members]:
                # A key of another kind.
                node = source.choice(maps)
                keys = source.randrange(0, len(node.members), 2)
                node.members[keys] = deepcopy(source.choice(source.choice(others).all()))
            case _:
                node.kind, node.raw = skim.SCALAR, source.choice(_ODD)
    return tree.bytes()
