"""A short attack on every place, and the proof that nothing public is left out of it.

The long form runs as long as it is told to, on one place:

    PYTHONPATH=tests python -m attack --place postgres --minutes 60 --seed 7
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import milepost
from attack.campaign import Campaign, OwnRedis, Settings, new_database, own_server, replayed
from attack.coverage import NOT_ATTACKED, OBJECTS, covered, public_methods
from attack.faults import FAULTS
from attack.places import PLACES

LONG = bool(os.environ.get("MILEPOST_LONG"))
TOGETHER = [["threads"], ["store"]] if LONG else [["threads", "store"]]
"""In short, one attack on each place: most of its time goes into starting processes."""


@pytest.fixture
def address(request: pytest.FixtureRequest, place: str, tmp_path: Path) -> Any:
    if place.startswith("redis"):
        return request.getfixturevalue("attacked_redis").url if LONG else ""
    if not place.startswith("postgres"):
        return str(tmp_path / "attacked.db")
    name = f"attack_{uuid.uuid4().hex[:10]}"
    return new_database(request.getfixturevalue("attacked_server"), name)


@pytest.fixture(scope="module")
def attacked_server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server of its own: a fault may be to stop it."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="attack-pg-") as home, own_server(Path(home)) as server:
        yield server


@pytest.fixture
def attacked_redis() -> Any:
    pytest.importorskip("redis")
    with closing(OwnRedis()) as server:
        yield server


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
@pytest.mark.parametrize("place", [*PLACES])
@pytest.mark.parametrize("workloads", TOGETHER, ids=" and ".join)
def test_what_was_promised_holds_while_everybody_does_everything(
    workloads, place, address, tmp_path, request
):
    if place.startswith("redis") and not LONG:
        pytest.skip("in the long form only: MILEPOST_LONG")
    server = None
    if place.startswith("postgres"):
        server = request.getfixturevalue("attacked_server")
    elif place.startswith("redis"):
        server = request.getfixturevalue("attacked_redis")
    settings = Settings(
        place=place,
        address=address,
        directory=str(tmp_path),
        seed=18,
        workers=2,
        rounds=200 if LONG else 1,
        count=1000 if LONG else 16,
        limit=20.0 if LONG else 30.0,
        faults=[*FAULTS] if LONG else [],
        workloads=workloads,
    )
    report = Campaign(settings, server).run()
    assert not report.violations, "\n".join(
        f"{violation.promise}\n  {violation.what}" for violation in report.violations
    )
    assert sum(report.operations.values()) > 0
    assert sum(report.checks.values()) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
@pytest.mark.parametrize("workload", ["threads", "store"])
def test_the_last_rounds_can_be_checked_again_with_what_was_known_before_them(workload, tmp_path):
    settings = Settings(
        *("memory", "", str(tmp_path), 18, [workload]), rounds=5, count=2, limit=10.0
    )
    report = Campaign(settings).run()
    again = replayed(tmp_path)
    assert (report.rounds, again.rounds) == (5, 3)
    assert not report.violations
    assert not again.violations
    assert again.checks


def test_an_older_milepost_runs_in_every_second_process(tmp_path):
    older = tmp_path / "older"
    older.mkdir()
    (older / "milepost").symlink_to(Path(milepost.__file__).parent)
    settings = Settings(
        "sqlite", str(tmp_path / "attacked.db"), str(tmp_path), older=str(older), workers=2
    )
    (tmp_path / "settings.json").write_text(json.dumps(settings.as_json()))
    campaign = Campaign(settings)
    workers = [campaign._start(slot) for slot in (0, 1, 1)]
    try:
        places = [Path(worker.wait_for("ready")).parents[1] for worker in workers]
        assert [place == older for place in places] == [False, True, False]
    finally:
        for worker in workers:
            worker.kill()


@pytest.mark.parametrize("kind", [*OBJECTS])
def test_every_public_method_is_attacked_or_has_a_reason_not_to_be(kind):
    """A new method of a saver, a store or a graph has to come into the list of operations."""
    forgotten = {
        name
        for each in OBJECTS[kind]
        for name in public_methods(each)
        if f"{kind}.{name}" not in covered() and f"{kind}.{name}" not in NOT_ATTACKED
    }
    assert not forgotten, f"no operation covers {sorted(forgotten)} of a {kind}"


def test_the_reasons_are_of_methods_that_are_there_and_not_attacked():
    there = {
        f"{kind}.{name}"
        for kind, each in OBJECTS.items()
        for one in each
        for name in public_methods(one)
    }
    assert set(NOT_ATTACKED) <= there - covered()
    assert covered() <= there
