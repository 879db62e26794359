"""What must hold of each item of a store, and of its versions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from attack.history import Span
from attack.store_register import SLACK, Read, Register, Write, clocks
from attack.store_round import Found, Round, broken

# -- one item


def reads_are_of_writes(round_: Round) -> Found:
    for register in round_.registers.values():
        tokens = {write.token for write in register.writes}
        for read in register.reads:
            if read.token is not None and read.token not in tokens:
                yield broken(
                    "an item is what somebody put",
                    f"{read.item} is {read.token}, which was not put there, or was refused",
                    read.span,
                )


def nothing_comes_back(round_: Round) -> Found:
    """No two values are there at once, and what was replaced or deleted stays so."""
    promise = "what was replaced or deleted does not come back"
    for item, register in round_.registers.items():
        moments = list(register.zones())
        lasting = sorted((one for one in moments if one[1] < one[2]), key=lambda zone: zone[1])
        for (first, _, last), (other, begin, _) in pairwise(lasting):
            if begin < last:
                text = f"{item}: {first.token} was read after {other.token}, and before it"
                yield broken(promise, text, first.span, other.span)
        # What was there for one moment only, somewhere between a latest beginning and an earliest
        # end, was not there while something else certainly was.
        brief = [(write, begin, end) for write, end, begin in moments if begin <= end]
        brief += [(one, one.begin, one.end) for one in register.writes if one.token is None]
        for write, begin, end in brief:
            zone = _around(lasting, begin, end)
            if zone is not None:
                did = "a delete" if write.token is None else f"{write.token} was put"
                text = f"{item}: {zone[0].token} was read after {did}"
                yield broken(promise, text, zone[0].span, write.span)


def _around(zones: list[Any], begin: float, end: float) -> Any:
    """The zone in which a call lies from its beginning to its end."""
    at = bisect_left(zones, begin, key=lambda zone: zone[1]) - 1
    return zones[at] if at >= 0 and end < zones[at][2] else None


def nothing_vanishes(round_: Round) -> Found:
    """An item that is not found was not put yet, or it was deleted, has expired, or is another."""
    for item, register in round_.registers.items():
        acknowledged = [write for write in register.writes if write.is_acknowledged]
        for read in register.reads:
            if read.token is not None:
                continue
            before = [write for write in acknowledged if write.end < read.begin and write.token]
            if not before:
                continue
            last = max(before, key=lambda write: write.begin)
            if not any(
                write.begin < read.end
                and write.end >= last.begin
                and _explains(round_, register, write, read)
                for write in register.writes
            ):
                how = "by meaning" if read.by_meaning else "by key, namespace or field"
                text = f"{item}: {last.token} was put, but {read.span.operation} did not find it"
                yield broken(f"an item that was put is found {how}", text, last.span, read.span)


def _explains(round_: Round, register: Register, write: Write, read: Read) -> bool:
    """Whether the item may be missing in the read because of this write."""
    if write.token is None or not read.looks_for(write):
        return True
    if write.ttl is not None and _may_have_expired(round_, register, write, read):
        return True
    return read.by_meaning and _is_late(write, read)


def _may_have_expired(round_: Round, register: Register, write: Write, read: Read) -> bool:
    assert write.ttl is not None
    if write.begin < round_.begin:
        return True  # who has refreshed it in an earlier round is not known any more
    refreshes = [
        clocks(one.span)[0]
        for one in register.reads
        if one.refresh and write.begin <= one.begin < read.end
    ]
    earliest = min([write.clocks[0], *refreshes]) + write.ttl
    if not round_.is_skewed:
        # A read that ended well before the item could expire has made it live longer.
        for one in sorted(register.reads, key=lambda one: one.end):
            renews = one.refresh and one.token == write.token and one.end < read.begin
            if renews and round_.real(one.end) + SLACK < earliest:
                earliest = max(earliest, clocks(one.span)[0] + write.ttl)
    return round_.real(read.end) + SLACK >= earliest


def _is_late(write: Write, read: Read) -> bool:
    """Whether a process with another model has put it while the search was going on.

    A search embeds what such processes have left to it, once, when it begins.
    """
    return write.model != read.span.arguments["model"] and write.end >= read.begin


def nothing_lives_on(round_: Round) -> Found:
    """An item is not found after its time."""
    for item, register in round_.registers.items():
        puts = {write.token: write for write in register.writes if write.token}
        refreshes = [one for one in register.reads if one.refresh and one.token]
        unknown = [span for span in round_.calls if not span.is_ok and _may_refresh(span, item)]
        for read in register.reads:
            write = puts.get(read.token or "")
            if write is None or write.ttl is None or read.implied:
                continue
            if write.begin < round_.begin:
                continue  # who has refreshed it in an earlier round is not known any more
            if any(span.start < read.end for span in unknown):
                continue
            latest = [clocks(one.span)[1] for one in refreshes if one.begin < read.end]
            until = max([write.clocks[1], *latest]) + write.ttl
            now = clocks(read.span)[0]
            if now > until + SLACK and write.span is not read.span:
                text = f"{item}: {write.token} was read {now - until:.3f} s after it had expired"
                yield broken("an item that has expired is not found", text, write.span, read.span)


def _may_refresh(span: Span, item: str) -> bool:
    return any(
        asked["refresh"] and (asked["scope"] == "search" or item in asked["items"])
        for asked in span.arguments["reads"]
    )


# -- versions


def versions_grow(round_: Round) -> Found:
    promise = "a later put has a larger version"
    for item, register in round_.registers.items():
        versions: dict[str, int] = {}
        for read in register.reads:
            if read.token is not None and read.version is not None:
                first = versions.setdefault(read.token, read.version)
                if first != read.version:
                    text = f"{item}: {read.token} has the versions {first} and {read.version}"
                    yield broken("an item has one version until it is put again", text, read.span)
        known = [write for write in register.writes if write.token in versions]
        known.sort(key=lambda write: versions[write.token or ""])
        latest: Write | None = None
        for write in known:
            if latest is not None and write.end < latest.begin:
                text = f"{item}: {latest.token} was put after {write.token}, with a smaller version"
                yield broken(promise, text, write.span, latest.span)
            if latest is None or write.begin > latest.begin:
                latest = write


def no_update_is_lost(round_: Round) -> Found:
    promise = "a put with a version replaces that version and no other"
    for item, register in round_.registers.items():
        versions = {read.version: read.token for read in register.reads if read.version}
        of_token = {token: version for version, token in versions.items()}
        accepted: dict[int, Write] = {}
        for write in register.writes:
            expected = write.if_version
            if not expected or not write.is_acknowledged:
                continue
            other = accepted.setdefault(expected, write)
            if other is not write:
                text = f"{item}: version {expected} was replaced by two writes"
                yield broken(promise, text, other.span, write.span)
            mine = of_token.get(write.token)
            if mine is None:
                continue
            lost = [versions[one] for one in versions if expected < one < mine]
            if lost:
                text = f"{item}: {write.token} replaced version {expected} over {lost}"
                yield broken(promise, text, write.span)


def conflicts_are_real(round_: Round) -> Found:
    """A version is refused only if the item is, or was during the call, at another one."""
    for span in round_.calls:
        if span.error != "VersionConflict":
            continue
        guarded = [one for one in span.arguments["writes"] if one["if_version"] is not None]
        if not guarded:
            yield broken(
                "only a put with a version is refused for it", f"{span.arguments['writes']}", span
            )
        elif all(_was_there(round_, one, span) for one in guarded):
            yield broken(
                "a put with the version that is there is accepted", f"{guarded} was refused", span
            )


def _was_there(round_: Round, asked: dict[str, Any], span: Span) -> bool:
    """Whether the item was certainly at the version that was asked for, during all of the call."""
    register = round_.registers[asked["item"]]
    tokens = {read.token for read in register.reads if read.version == asked["if_version"]}
    missed = Read(asked["item"], None, span)
    return any(
        write.token in tokens
        and begin < span.start
        and span.stop < end
        and (write.ttl is None or not _may_have_expired(round_, register, write, missed))
        for write, begin, end in register.zones()
    )


CHECKS: list[Callable[[Round], Found]] = [
    reads_are_of_writes,
    nothing_comes_back,
    nothing_vanishes,
    nothing_lives_on,
    versions_grow,
    no_update_is_lost,
    conflicts_are_real,
]
