"""Random graphs and random operations on them, on milepost and on LangGraph: the same happens.

The short form is part of the suite and always tries the same examples. The long form tries new
ones each time:

    MILEPOST_LONG=1 python -m pytest tests/model
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from build import tails
from compare import CONFIG, Run, differs
from hypothesis import HealthCheck, Phase, given, settings
from spec import Case, Op
from strategies import cases

from milepost._engine import run as graph_run
from milepost._engine import start
from milepost._engine.reading import snapshot
from milepost._engine.superstep import pending_writes, plan
from milepost.channels import DeltaChannel, NamedBarrierValue

# Unknown keys and unknown targets are part of the examples; that they are warned of is not.
pytestmark = pytest.mark.filterwarnings("ignore::milepost.warnings.MilepostWarning")

LONG = bool(os.environ.get("MILEPOST_LONG"))
EXAMPLES = 1500 if LONG else 60
PLANTED = 200
"""Within how many examples a planted bug is found."""

COLOURS = ("sync", "async")
DURABILITIES = {"sync": ("sync", "async"), "exit": ("exit",)}
"""LangGraph's durability → those of milepost that must look the same from outside."""


class Differs(AssertionError):
    """The two libraries do not agree."""


@cache
def reference(case: Case, durability: str) -> list[dict[str, Any]]:
    """What LangGraph does."""
    return Run("langgraph", case, "async", durability).observe()


def check(case: Case, colour: str, durability: str, expected: list[dict[str, Any]]) -> None:
    found = differs(expected, Run("milepost", case, colour, durability).observe())
    if found is not None:
        raise Differs(f"{colour} face, durability {durability!r}, {found}")


def trying(examples: int, *phases: Phase, derandomize: bool = True) -> settings:
    return settings(
        max_examples=examples,
        derandomize=derandomize,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        report_multiple_bugs=False,
    )


@pytest.mark.parametrize("saved", DURABILITIES)
def test_milepost_does_what_langgraph_does(saved: str) -> None:
    @trying(EXAMPLES, Phase.generate, Phase.shrink, derandomize=not LONG)
    @given(cases(saved))
    def agree(case: Case) -> None:
        expected = Run("langgraph", case, "async", saved).observe()
        for colour in COLOURS:
            for durability in DURABILITIES[saved]:
                check(case, colour, durability, expected)

    agree()


class Commanding(Run):
    """Goes on with a Command that changes the state of the paused thread."""

    def _go_on(self, op: Op, seen: dict[str, Any]) -> None:
        update = {"log0": [f"command {op.number}"]}
        self._run(op, seen, self.built.library.command(update=update), CONFIG)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_delta_channel_holds_what_a_plain_one_holds(durability: str) -> None:
    @trying(EXAMPLES // 2, Phase.generate, Phase.shrink, derandomize=not LONG)
    @given(cases())
    def agree(case: Case) -> None:
        plain = Commanding("milepost", case, "sync", durability).observe()
        delta = DeltaChannel(tails, snapshot_frequency=4)
        assert Commanding("milepost", case, "sync", durability, delta).observe() == plain

    agree()


NODE_FEATURES = (
    *("route", "goto", "asks", "fails", "defer", "child", "memory", "called", "twice", "leaves"),
    "stray",
)


def features(case: Case) -> Iterator[str]:
    """What a case is about."""
    yield from (f"operation {op.kind}" for op in case.ops)
    for op in case.ops:
        yield from (name for name in ("limit", "before", "after", "streamed") if getattr(op, name))
    if case.graph.joins:
        yield "join"
    if case.graph.entry_route:
        yield "conditional entry"
    for node in case.graph.everywhere():
        yield from (name for name in NODE_FEATURES if getattr(node, name))
        if any(go.arg is not None for option in node.route + node.goto for go in option):
            yield "send"
        if any(go.node == "nowhere" for option in node.route + node.goto for go in option):
            yield "nowhere"
        if node.child is not None:
            yield f"level {node.child.level}"


def test_the_examples_have_everything() -> None:
    seen: set[str] = set()

    @trying(60, Phase.generate)
    @given(cases())
    def look(case: Case) -> None:
        seen.update(features(case))

    look()
    kinds = ("input", "go_on", "resume", "answer", "replay", "update", "fork")
    assert seen >= {
        *(f"operation {kind}" for kind in kinds),
        *("limit", "before", "after", "streamed", "join", "conditional entry", "send"),
        "nowhere",
        *NODE_FEATURES,
        *("level 1", "level 2"),
    }


# -- planted bugs


def writes_in_reverse(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(graph_run, "in_path_order", lambda tasks: plan.in_path_order(tasks)[::-1])


def a_join_that_fires_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NamedBarrierValue, "is_available", lambda self: bool(self.seen))


def a_replay_that_reuses_old_writes(patch: pytest.MonkeyPatch) -> None:
    continue_run = start.continue_run
    patch.setattr(start, "continue_run", lambda run, saved, _: continue_run(run, saved, False))


def a_resume_that_runs_finished_siblings_again(patch: pytest.MonkeyPatch) -> None:
    def forget(tasks: Any, stored: Any) -> None:
        pending_writes.recall(tasks, stored)
        for task in tasks:
            task.finished = False

    patch.setattr(start, "recall", forget)


def answers_that_are_mixed_up(patch: pytest.MonkeyPatch) -> None:
    chosen = start.chosen_answers

    def mixed(*args: Any) -> Any:
        answers = chosen(*args)
        return dict(zip(answers, reversed(answers.values()), strict=True))

    patch.setattr(start, "chosen_answers", mixed)


def a_finished_sibling_that_is_lost_at_a_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(snapshot, "finished_writes", lambda _: [])


def an_input_that_keeps_waiting_tasks(patch: pytest.MonkeyPatch) -> None:
    take = start.take_input

    def keep(run: Any, given: Any) -> Any:
        patch.setattr(start, "plan", lambda *_: [])
        try:
            yield from take(run, given)
        finally:
            patch.setattr(start, "plan", plan.plan)

    patch.setattr(start, "take_input", keep)


@pytest.mark.parametrize(
    "plant",
    [
        writes_in_reverse,
        a_join_that_fires_early,
        a_replay_that_reuses_old_writes,
        a_resume_that_runs_finished_siblings_again,
        answers_that_are_mixed_up,
        a_finished_sibling_that_is_lost_at_a_pause,
        an_input_that_keeps_waiting_tasks,
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    @trying(PLANTED, Phase.generate)
    @given(cases())
    def agree(case: Case) -> None:
        check(case, "sync", "sync", reference(case, "sync"))

    plant(monkeypatch)
    with pytest.raises(Differs):
        agree()
