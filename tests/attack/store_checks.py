"""What must hold of a store, checked from what was recorded.

An item that was put is found by key, by namespace, by field and by meaning until it is replaced,
deleted or expires; then it is found by none of them. No update is lost, no version is used twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from attack import store_item_checks
from attack.history import Event, Span, spans
from attack.store_model import ITEMS, MODELS, PAIR, text_of
from attack.store_register import NEVER, Write, is_refused, registers
from attack.store_round import Found, Round, broken
from attack.violations import Violation

BUSY = (
    "DatabaseBusyError",
    "ConnectionUnusableError",
    "OutcomeUnknownError",
    "StorageError",
    "StorageFullError",
)
"""Typed errors that any call may end with: others hold the database, or a fault has hit it."""
TYPED = "a call ends with an error that says what to do"


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
        yield from _probes(every, events)
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
                    or (item not in there and register.may_come_back(write))
                ]
            self._carried[item] = kept

    def _count(self, round_: Round) -> None:
        everything = round_.registers.values()
        self.made["store: calls"] += len(round_.calls)
        self.made["store: writes"] += sum(len(register.writes) for register in everything)
        self.made["store: reads of an item"] += sum(len(register.reads) for register in everything)
        self.made["store: observations"] += len(round_.observations)


def _probes(every: list[Span], events: list[Event]) -> Found:
    """What operations have found by themselves, on stores of their own."""
    for event in events:
        if event.operation == "wrong of a store":
            yield Violation(event.arguments["promise"], event.arguments["what"], (event,))
    for span in every:
        if span.operation == "probe" and span.error not in (None, "Hindered", *BUSY):
            assert span.end is not None
            yield broken(TYPED, f"{span.arguments}: {span.end.error}", span)


def _loses_connections(span: Span) -> bool:
    return span.operation == "fault" and span.arguments["kind"] in ("terminate", "restart")


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
        yield broken(TYPED, f"{span.operation}: {told}", span)


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
    *store_item_checks.CHECKS,
    batches_are_whole,
    scores_are_of_what_is_there,
    errors_are_typed,
    sweepers_end,
    views_agree,
]
