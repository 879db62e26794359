"""The benchmark runs, and what it finds makes sense. How fast anything is, is not asserted here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.__main__ import main, measure
from bench.cases import ALL, chosen
from bench.context import TINY, Context
from bench.measure import Watch, alternate, ratio, summary
from bench.records import OURS, THEIRS, Check, Target, law
from bench.table import table, verdict

ONE_OF_EACH = [
    "steps.memory",
    "steps.sqlite-sync",
    "fanout.sqlite-sync",
    "concurrency.sqlite",
    "chat.sqlite",
    "reading.sqlite-list",
    "threads.page",
    "imports.graph",
    "scaling.nodes",
]


def test_there_is_a_case_of_each_group_here():
    assert {name.partition(".")[0] for name in ONE_OF_EACH} == {case.group for case in ALL}


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_case_runs_and_says_something_of_each_side(name):
    with Context(TINY) as context:
        records, skipped = measure(chosen([name]), context)
    assert not skipped
    assert records
    for record in records:
        sides = {OURS} if name == "threads.page" else {OURS, THEIRS}
        assert sides <= set(record.sides)
        assert all(0 < side.low <= side.median <= side.high for side in record.sides.values())
        assert all(point[1] > 0 for curve in record.curves for point in curve.points)
        assert record.title in table([record])


def test_the_command_writes_records_and_pictures(tmp_path, capsys):
    arguments = ["--tiny", "chat.sqlite", "--json", str(tmp_path / "found.json")]
    assert main([*arguments, "--svg", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert {record["case"] for record in found["records"]} == {
        "chat.sqlite.bytes",
        "chat.sqlite.time",
        "chat.sqlite.slowing",
    }
    assert (tmp_path / "growth.svg").read_text("utf-8").startswith("<svg")
    assert "targets met" in capsys.readouterr().out


def test_the_command_lists_its_cases_and_refuses_others(capsys):
    assert main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(case.name in printed for case in ALL)
    assert main(["nothing.such"]) == 2
    assert "nothing.such" in capsys.readouterr().err


def test_contenders_take_turns():
    order = []

    def contender(name):
        def contend(watch: Watch) -> None:
            order.append(name)
            with watch.over(1):
                pass

        return contend

    taken = alternate({name: contender(name) for name in "ab"}, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert [len(taken[name]) for name in "ab"] == [3, 3]


def test_ratios_are_taken_within_rounds():
    assert ratio([10, 100, 30], [1, 20, 1]).median == 10
    assert summary([3, 1, 2]).low == 1


def test_targets_are_met_or_missed_by_the_median():
    assert Check(Target(THEIRS, 10), summary([9, 11, 12])).met
    assert not Check(Target(THEIRS, 10), summary([9, 9, 12])).met
    assert Check(Target("limit", 1.5, at_least=False), summary([1, 1.4, 2])).met
    assert verdict([]) == "0 of 0 targets met."


@pytest.mark.parametrize(
    ("points", "named"),
    [
        ([(10, 5.0), (100, 5.2), (1000, 5.1)], "flat"),
        ([(10, 5.0), (100, 8.0), (1000, 11.0)], "logarithmic"),
        ([(10, 5.0), (100, 9.5), (1000, 54.5)], "linear"),
        ([(10, 5.0), (100, 500.0), (1000, 50000.0)], "worse than linear"),
    ],
)
def test_the_law_of_a_curve_is_named(points, named):
    assert law(points).startswith(named)
