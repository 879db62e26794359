"""Grows a conversation turn by turn, and keeps what each turn took."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import Any

from bench.context import Context
from bench.graphs import chat, on_thread, text, user_turn
from bench.libraries import Library
from bench.measure import Reading
from bench.places import Database
from bench.seats import Seat

THREAD = "chat"


@dataclass(slots=True)
class Grown:
    """A conversation in a database, and how it came there."""

    where: Any
    """A file, or the address of a schema."""
    turns: list[Reading] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Turns and bytes, along the way."""
    bytes: int = 0
    """After closing."""

    def total(self) -> Reading:
        """The whole conversation."""
        return Reading(sum(t.wall for t in self.turns), sum(t.cpu for t in self.turns))

    def part(self, start: int | None, end: int | None) -> Reading:
        """Some turns."""
        part = self.turns[start:end]
        return Reading(sum(t.wall for t in part), sum(t.cpu for t in part))


def grow(database: Database, context: Context, seat: Seat) -> Grown:
    """A conversation of as many turns as the plan has, saved with `sync`."""
    return seat.do(_grow, database, database.empty(context), context.plan.turns)


def _grow(library: Library, database: Database, where: Any, turns: int) -> Grown:
    grown = Grown(where)
    sampled = max(1, turns // 40)
    with database.open(library, where) as saver:
        graph = chat(library, saver)
        config = on_thread(THREAD)
        for number in range(2 * turns + 2):
            text(number)  # made once, and not while the clock runs
        gc.collect()
        for number in range(turns):
            given = user_turn(number)
            wall, cpu = time.perf_counter(), time.process_time()
            graph.invoke(given, config, durability="sync")
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            grown.turns.append(Reading(wall, cpu))
            if (number + 1) % sampled == 0:
                grown.sizes.append((number + 1, database.used(where)))
    grown.bytes = database.left(where)
    return grown


def kept(database: Database, context: Context, seat: Seat) -> Grown:
    """A conversation, grown by an earlier case or now."""
    grown: Grown = context.once(
        ("grown", database.name, seat.name), lambda: grow(database, context, seat)
    )
    return grown
