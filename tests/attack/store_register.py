"""The recorded life of one item, as a register: what was written to it and read from it, and when.

All values differ, so each read names the write that it saw. From that follows, without a search
through all orders, where the value was certainly there: from the first moment at which the put or
a read of it had ended to the last at which a read of it began (Gibbons and Korach, "Testing Shared
Memories", call this its zone).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from attack.history import Span
from attack.store_model import ITEMS, kind_of

NEVER = float("inf")
SLACK = 0.02
"""Seconds by which what a clock said at a call may be off from when the call was recorded."""


@dataclass(slots=True, eq=False)
class Write:
    """A put, or a delete (`token` is None)."""

    item: str
    token: str | None
    span: Span
    index: bool = True
    ttl: float | None = None
    if_version: int | None = None

    @property
    def begin(self) -> float:
        return self.span.start

    @property
    def end(self) -> float:
        """What is not known to be done or refused may have an effect at any later time."""
        return self.span.stop if self.span.is_ok else NEVER

    @property
    def is_acknowledged(self) -> bool:
        return self.span.is_ok

    @property
    def clocks(self) -> tuple[float, float]:
        return clocks(self.span)

    @property
    def model(self) -> str:
        return str(self.span.arguments["model"])


@dataclass(slots=True, eq=False)
class Read:
    """What one call saw of one item; `token` is None where it saw none."""

    item: str
    token: str | None
    span: Span
    version: int | None = None
    kind: int | None = None
    """Only items of this kind were looked for."""
    by_meaning: bool = False
    """Only items with a vector were looked for."""
    refresh: bool = False
    implied: bool = False
    """Not asked for: it follows from a version that was accepted."""

    @property
    def begin(self) -> float:
        return self.span.start

    @property
    def end(self) -> float:
        return self.span.stop

    def looks_for(self, write: Write) -> bool:
        """Whether the read would have seen what was put, had it been there."""
        if write.token is None:
            return False
        if self.kind is not None and kind_of(write.token.partition("@")[0]) != self.kind:
            return False
        return write.index or not self.by_meaning


def clocks(span: Span) -> tuple[float, float]:
    """What the store's clock said at the beginning and at the end of a call."""
    first = float(span.arguments["clock"])
    last = float(span.result["clock"]) if span.is_ok else NEVER
    return min(first, last), max(first, last)


@dataclass(slots=True)
class Register:
    """One item."""

    item: str
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    recorded: list[Write] = field(default_factory=list)
    """The writes as they were called; `writes` has those twice that were done twice."""

    def write_of(self, token: str) -> Write | None:
        return next((write for write in self.writes if write.token == token), None)

    def may_come_back(self, put: Write) -> bool:
        """Whether the item, which has expired, lives again for a process whose clock goes back.

        The row of an expired item is there until the item is swept, replaced or deleted.
        """
        return (put.token is not None and put.ttl is not None) and not any(
            write.is_acknowledged and put.end < write.begin for write in self.recorded
        )

    def zones(self) -> Iterator[tuple[Write, float, float]]:
        """Each put with the two ends of its zone: the earliest end and the latest beginning."""
        seen: dict[str, list[Read]] = defaultdict(list)
        for read in self.reads:
            if read.token is not None:
                seen[read.token].append(read)
        for write in self.writes:
            if write.token is not None:
                calls = [write, *seen[write.token]]
                yield write, min(call.end for call in calls), max(call.begin for call in calls)


def registers(
    spans: Iterable[Span], carried: dict[str, list[Write]], outages: Sequence[Span] = ()
) -> dict[str, Register]:
    """All items. `carried` is what an earlier round has left in them."""
    found = {item: Register(item, list(carried.get(item, ()))) for item in ITEMS}
    for span in spans:
        for written in [] if is_refused(span) else span.arguments["writes"]:
            token, version = written["token"], written["if_version"]
            if token is None and version == 0:
                # To delete what must not be there changes nothing.
                if span.is_ok:
                    found[written["item"]].reads.append(
                        Read(written["item"], None, span, implied=True)
                    )
                continue
            write = Write(written["item"], token, span, written["index"], written["ttl"], version)
            found[write.item].writes.append(write)
        if span.is_ok:
            for read in reads_of(span):
                found[read.item].reads.append(read)
    for register in found.values():
        register.recorded = list(register.writes)
        for write in register.recorded:
            if any(outage.overlaps(write.begin, write.end) for outage in outages):
                _repeat(register, write)
        register.reads += _implied(register)
    return found


def _repeat(register: Register, write: Write) -> None:
    """A put without a version is done again if the connection was lost while it was on its way.

    Each time it has another version. It counts as several puts then, all of the same duration.
    """
    mine = [read for read in register.reads if read.token == write.token is not None]
    versions = {read.version for read in mine}
    if write.if_version is not None or len(versions) < 2:
        return
    register.writes.remove(write)
    for version in versions:
        again = replace(write, token=f"{write.token}@{version}")
        register.writes.append(again)
        for read in mine:
            if read.version == version:
                read.token = again.token


REFUSALS = ("VersionConflict", "IndexMismatchError")
"""Errors after which nothing has changed. After others, one cannot know."""


def is_refused(span: Span) -> bool:
    return span.error in REFUSALS


def reads_of(span: Span) -> Iterator[Read]:
    """What a call has seen of each item that it looked for."""
    for asked, view in zip(span.arguments["reads"], span.result["found"], strict=False):
        scope = asked["scope"]
        if scope == "namespaces":
            # A namespace that is not listed has no items.
            items = [item for item in ITEMS if "/".join(ITEMS[item].namespace) not in view]
            yield from (Read(item, None, span) for item in items)
            continue
        kind, by_meaning = asked.get("kind"), asked.get("query") is not None
        for item in covered(asked):
            token, version, _ = view.get(item) or (None, None, None)
            yield Read(item, token, span, version, kind, by_meaning, asked["refresh"])


def covered(asked: dict[str, Any]) -> list[str]:
    """The items that a read looks at."""
    if asked["scope"] == "get":
        return list(asked["items"])
    prefix = tuple(asked["prefix"])
    return [name for name, item in ITEMS.items() if item.namespace[: len(prefix)] == prefix]


def _implied(register: Register) -> Iterator[Read]:
    """A write that was accepted with a version has seen that version, or (for 0) no item."""
    tokens: dict[int | None, set[str | None]] = defaultdict(set)
    for read in register.reads:
        tokens[read.version].add(read.token)
    for write in register.writes:
        version = write.if_version
        if version is None or not write.is_acknowledged:
            continue
        if version == 0:
            yield Read(write.item, None, write.span, implied=True)
        elif len(tokens[version]) == 1:
            yield Read(write.item, *tokens[version], write.span, version, implied=True)
