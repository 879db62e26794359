"""Operations that judge by themselves find the bug that they are for, and nothing without it."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from attack.graph import build
from attack.history import Recorder, open_history, read
from attack.operation import Context, adrive, drive
from attack.places import PLACES
from attack.plants import PLANTS
from attack.workloads import WORKLOADS

OPERATIONS = {
    operation.name: operation
    for workload in WORKLOADS.values()
    for operation in workload.operations
}


class Probe(NamedTuple):
    place: str
    operation: str
    times: int = 1
    """So often, in either colour. What is drawn may be something that the bug does not touch."""


PROBES = {
    "rows-of-writes-unnoticed": Probe("sqlite", "rows gone", 8),
    "inline-writes-unnoticed": Probe("sqlite", "rows gone", 8),
    "old-entry-unnoticed": Probe("sqlite", "rows gone", 8),
    "metadata-not-looked-at": Probe("sqlite", "damaged entry"),
    "cells-of-any-type": Probe("sqlite", "odd cell", 12),
    "reads-want-to-write": Probe("sqlite", "read only"),
    "pickled-anyhow": Probe("memory", "sent away"),
    "one-stack": Probe("memory", "deep"),
    "each-line-again": Probe("memory", "many"),
    "branches-know-all-nodes": Probe("memory", "many nodes"),
    "writes-beside-unnoticed": Probe("memory", "beside"),
    "ended-sibling-forgotten": Probe("memory", "broken off", 8),
    "surplus-unnoticed": Probe("memory", "two readers"),
    "names-with-nul-differ": Probe("sqlite", "store_filters", 3),
    "vectors-not-looked-at": Probe("memory", "store_embeddings", 6),
    "one-list-for-model-and-store": Probe("memory", "store_embeddings", 6),
    "any-size": Probe("sqlite", "store_too_large"),
}
SOUND = {f"{probe.operation} on {probe.place}": probe for probe in PROBES.values()}


BROKEN = "not even tried: "
"""Begins what is told of a bug that could not be put back, or of a place that could not be opened:
no operation has found anything."""


def told(probe: Probe, plant: str | None, directory: str) -> list[str]:
    """What an operation says is wrong, with a bug put back in this process or without one."""
    os.makedirs(directory)
    if plant is not None:
        PLANTS[plant].put_back()
    place = PLACES[probe.place](f"{directory}/attacked.db")
    history = open_history(directory, "0.0")
    with ExitStack() as stack:
        saver, store = stack.enter_context(place.saver()), stack.enter_context(place.store())

        def context(at: int) -> Context:
            graph = build(Recorder(history, "0.0", -1), is_async=bool(at))
            return Context(
                recorder=Recorder(history, "0.0", at),
                random=random.Random(at),
                graph=graph.compile(checkpointer=saver, store=store),
                saver=saver,
                store=store,
                threads=["t0"],
                place=place,
                is_async=bool(at),
                shared={"plant": plant},
            )

        sync, on_loop = context(0), context(1)
        run = OPERATIONS[probe.operation].run

        async def main() -> None:
            for _ in range(probe.times):
                with suppress(Exception):  # which is recorded
                    await adrive(run(on_loop))

        for _ in range(probe.times):
            with suppress(Exception):
                drive(run(sync))
        asyncio.run(main())
    events = read(directory)
    errors = [f"{event.error}" for event in events if event.error is not None]
    return [*errors, *(event.arguments["what"] for event in events if "wrong" in event.operation)]


def look(directory: str) -> dict[str, list[str]]:
    """Each in a child of its own, which has everything loaded."""
    jobs = {name: (probe, name) for name, probe in PROBES.items()}
    jobs |= {name: (probe, None) for name, probe in SOUND.items()}  # type: ignore[misc]
    return {
        name: in_child(probe, plant, f"{directory}/{at}")
        for at, (name, (probe, plant)) in enumerate(jobs.items())
    }


def in_child(probe: Probe, plant: str | None, directory: str) -> list[str]:
    if (child := os.fork()) == 0:
        try:
            found = told(probe, plant, directory)
        except BaseException as error:
            found = [f"{BROKEN}{error!r}"]
        Path(directory + ".json").write_text(json.dumps(found))
        os._exit(0)
    os.waitpid(child, 0)
    told_by_child: list[str] = json.loads(Path(directory + ".json").read_text())
    return told_by_child


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = str(tmp_path_factory.mktemp("probes"))
    tests = str(Path(__file__).parent.parent)  # for the children's children
    spawn = multiprocessing.get_context("spawn")
    with pytest.MonkeyPatch.context() as patch, ProcessPoolExecutor(1, mp_context=spawn) as pool:
        patch.setenv("PYTHONPATH", tests, prepend=os.pathsep)
        return pool.submit(look, directory).result()


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")


@pytest.mark.parametrize("plant", [*PROBES])
def test_a_bug_that_is_put_back_is_found(plant, found):
    assert found[plant]
    assert not [told for told in found[plant] if told.startswith(BROKEN)]


@pytest.mark.parametrize("probe", [*SOUND])
def test_nothing_is_found_without_a_bug(probe, found):
    assert found[probe] == []
