"""What must hold of a store, checked from what was recorded.

An item that was put is found by key, by namespace, by field and by meaning until it is replaced,
deleted or expires; then it is found by none of them. No update is lost, no version is used twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from attack.history import Event, Span, spans
from attack.store_model import ITEMS, MODELS, PAIR, text_of
from attack.store_register import (
    NEVER,
    SLACK,
    Read,
    Register,
    Write,
    clocks,
    is_refused,
    registers,
)
from attack.violations import Violation

BUSY = (
    "DatabaseBusyError",
    "ConnectionUnusableError",
    "OutcomeUnknownError",
    "StorageError",
    "StorageFullError",
)
"""Typed errors that any call may end with: others hold the database, or a fault has hit it."""
Found = Iterator[Violation]


class Checks:
    """Checks rounds, one after the other."""

    def __init__(self) -> None:
        self._carried: dict[str, list[Write]] = {}
        """What each item has at the end of a round, and what is not known to be done yet."""
        self._versions: dict[tuple[str, int], str] = {}
        self._models: set[str] = set()
        self.made: Counter[str] = Counter()
        """How many checks of what kind."""

    def violations(self, events: list[Event]) -> Found:
        """What does not hold in a round, from one observation to the next."""
        every = spans(events)
        calls = [span for span in every if span.operation.startswith("store_")]
        outages = [span for span in every if _loses_connections(span)]
        self._models |= {span.arguments["model"] for span in calls}
        round_ = Round(calls, registers(calls, self._carried, outages), len(self._models) > 1)
        for check in CHECKS:
            yield from check(round_)
        yield from self._reused_versions(round_)
        self._carry(round_)
        self._count(round_)

    def _reused_versions(self, round_: Round) -> Found:
        for register in round_.registers.values():
            for read in register.reads:
                if read.token is None or read.version is None:
                    continue
                first = self._versions.setdefault((read.item, read.version), read.token)
                if first != read.token:
                    yield broken(
                        "a version is never used twice",
                        f"{read.item}: version {read.version} is of {first} and of {read.token}",
                        read.span,
                    )

    def _carry(self, round_: Round) -> None:
        """The last observation says what is there now, if it could be made."""
        there = round_.observations[-1].by_key if round_.observations else None
        self._carried = {}
        for item, register in round_.registers.items():
            kept = register.recorded
            if there is not None:
                kept = [
                    write
                    for write in register.recorded
                    if (write.token is not None and write.token == there.get(item))
                    or (write.end == NEVER and write.begin >= round_.begin)
                ]
            self._carried[item] = kept

    def _count(self, round_: Round) -> None:
        everything = round_.registers.values()
        self.made["store: calls"] += len(round_.calls)
        self.made["store: writes"] += sum(len(register.writes) for register in everything)
        self.made["store: reads of an item"] += sum(len(register.reads) for register in everything)
        self.made["store: observations"] += len(round_.observations)


def _loses_connections(span: Span) -> bool:
    return span.operation == "fault" and span.arguments["kind"] in ("terminate", "restart")


class Round:
    """What the checks look at."""

    def __init__(
        self, calls: list[Span], registers: dict[str, Register], changes_model: bool
    ) -> None:
        self.calls = calls
        self.registers = registers
        self.changes_model = changes_model
        self.begin = calls[0].start if calls else 0
        self.real = _real_time(calls)
        """Turns a time of the history into seconds since 1970."""
        self.is_skewed = any(
            self.real(span.stop) - clocks(span)[1] > 0.2
            for span in calls
            if span.is_ok and not span.arguments.get("how")
        )
        """Whether a clock was set back."""
        self.reindexes = [span for span in calls if span.operation == "store_reindex"]
        self.observations = _observations(calls)


def broken(promise: str, what: str, *calls: Span) -> Violation:
    events = [event for span in calls for event in span if event is not None]
    return Violation(promise, what, tuple(events))


def _real_time(calls: list[Span]) -> Callable[[float], float]:
    """No clock goes ahead of the real time, so the one that is furthest ahead shows it."""
    ahead = max((clocks(span)[1] - span.stop / 1e9 for span in calls if span.is_ok), default=0.0)
    return lambda at: at / 1e9 + ahead


@dataclass(slots=True)
class Observation:
    """What one observation has found, by how it looked."""

    views: list[Span] = field(default_factory=list)
    by_key: dict[str, str] | None = None
    """The token of each item that is there."""


def _observations(calls: list[Span]) -> list[Observation]:
    """Each is known by its time, for its clock stands still."""
    found: dict[float, Observation] = defaultdict(Observation)
    for span in calls:
        if "how" in span.arguments and span.is_ok:
            observation = found[span.arguments["clock"]]
            observation.views.append(span)
            if span.arguments["how"] == "by key":
                view = span.result["found"][0]
                observation.by_key = {item: token for item, (token, _, _) in view.items()}
    return list(found.values())


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


# -- several items


def batches_are_whole(round_: Round) -> Found:
    """What is put in one transaction is seen whole or not at all, by what reads in one."""
    left, right = (str(twin) for twin in PAIR)
    for span in round_.calls:
        seen: dict[str, set[Any]] = {left: set(), right: set()}
        for register in (round_.registers[left], round_.registers[right]):
            for read in register.reads if span.is_ok else ():
                if read.span is span and not read.implied and read.kind is None:
                    seen[read.item].add(read.token)
        tokens = seen[left] | seen[right]
        if len(tokens) > 1:
            text = f"{left} is {seen[left]}, {right} is {seen[right]}"
            yield broken("a batch is seen whole or not at all", text, span)


def scores_are_of_what_is_there(round_: Round) -> Found:
    """An item is found by the vector of what it says now, in the model that was asked."""
    for span in round_.calls:
        if not span.is_ok:
            continue
        for asked, view in zip(span.arguments["reads"], span.result["found"], strict=False):
            if asked.get("query") is None:
                continue
            model = MODELS[span.arguments["model"]]
            scores = []
            for item, (token, _, score) in view.items():
                expected = model.score(asked["query"], text_of(token))
                scores.append(expected)
                if score is None or abs(score - expected) > 1e-3:
                    yield broken(
                        "an item is found by the meaning of what it says now",
                        f"{item}: {token} has the score {score}, not {expected:.4f}",
                        span,
                    )
            if any(one < other - 2e-3 for one, other in pairwise(scores)):
                yield broken("the nearest item comes first", f"{asked['query']}: {scores}", span)


# -- calls


def errors_are_typed(round_: Round) -> Found:
    for span in round_.calls:
        told = span.end.error if span.end is not None else None
        if told is None or span.error in BUSY or span.error == "BrokenOff":
            continue
        if span.error == "CancelledError" and span.arguments.get("cancels"):
            continue
        if span.error == "ReindexConflict" and span in round_.reindexes and round_.changes_model:
            continue
        if span.error == "VersionConflict" or (is_refused(span) and round_.changes_model):
            continue
        yield broken(
            "a call ends with an error that says what to do", f"{span.operation}: {told}", span
        )


def sweepers_end(round_: Round) -> Found:
    for span in round_.calls:
        if span.operation == "store_stop_sweeper" and span.is_ok and span.result["found"] != [True]:
            yield broken("a sweeper ends when it is stopped", "it did not within 20 s", span)


# -- quiet moments


def views_agree(round_: Round) -> Found:
    """While nobody writes, an item is found in each way, or in none."""
    for observation in round_.observations:
        for span in observation.views:
            how, view = span.arguments["how"], span.result["found"][0]
            there = _steady(round_, observation.by_key or {}, span.arguments["frozen"])
            if how == "by namespace":
                found = {item for item in ITEMS if "/".join(ITEMS[item].namespace) in view}
                wrong = set(there) - found
            elif how == "by search":
                wrong = {item for item in there if view.get(item, [None])[0] != there[item].token}
            elif how == "by meaning":
                wrong = {item for item in there if (item in view) != there[item].index}
            else:
                continue
            for item in sorted(wrong):
                put = there[item]
                text = f"{item}: {put.token} is found by key, and {how} as {view.get(item)}"
                yield broken("an item is found in every way or in none", text, put.span, span)


def _steady(round_: Round, there: dict[str, str], frozen: bool) -> dict[str, Write]:
    """The puts of what is there, without those that may expire while they are looked at."""
    puts = {item: round_.registers[item].write_of(token) for item, token in there.items()}
    return {
        item: put for item, put in puts.items() if put is not None and (put.ttl is None or frozen)
    }


CHECKS: list[Callable[[Round], Found]] = [
    reads_are_of_writes,
    nothing_comes_back,
    nothing_vanishes,
    nothing_lives_on,
    versions_grow,
    no_update_is_lost,
    conflicts_are_real,
    batches_are_whole,
    scores_are_of_what_is_there,
    errors_are_typed,
    sweepers_end,
    views_agree,
]
