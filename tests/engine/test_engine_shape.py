"""The shape of the engine: small objects, short chains, and one boundary that effects cross."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import pytest

import milepost
from milepost._engine import leases
from milepost._engine.context.config import RunSettings
from milepost._engine.context.task_context import find_context
from milepost._engine.drivers.effects import AWAIT, Start
from milepost._engine.drivers.sync import SyncDriver
from milepost._engine.run import GraphRun
from milepost._engine.streaming.events import EventStream
from milepost._internal.generators import GeneratorDriver, drive
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.graph import END, START, StateGraph

TOOL = Path(__file__).parents[2] / "tools" / "trace_step.py"
MOST_ATTRIBUTES = 22
MOST_CLASSES = 3
MOST_CALLS = 102


class State(TypedDict):
    count: int


def counting(node: Any) -> StateGraph:
    builder = StateGraph(State).add_node("count", node).add_edge(START, "count")
    builder.add_conditional_edges("count", lambda s: "count" if s["count"] < 3 else END)
    return builder


def attributes_of(given: object) -> set[str]:
    slots = {name for kind in type(given).__mro__ for name in getattr(kind, "__slots__", ())}
    annotated = {name for kind in type(given).__mro__ for name in inspect.get_annotations(kind)}
    return slots | annotated | set(getattr(given, "__dict__", ()))


def test_no_object_of_a_run_has_more_than_about_twenty_attributes(config):
    sizes: dict[str, int] = {}

    def node(state: State) -> dict[str, int]:
        context = find_context()
        assert context is not None
        run = context.run
        for part in (
            *(run, context, context.task, run.position, run.channels, run.checkpoints),
            *(run.checkpoints.thread, run.checkpoints.deltas, run.events, run.events.stream),
            *(run.resources, run.settings, run.subtasks),
        ):
            sizes[type(part).__name__] = len(attributes_of(part))
        return {"count": state["count"] + 1}

    counting(node).compile(checkpointer=InMemorySaver()).invoke({"count": 0}, config)
    assert len(sizes) == 13
    assert {name: size for name, size in sizes.items() if size > MOST_ATTRIBUTES} == {}


LONG_CHAINS = {
    # A shallow saver is an instance of the saver of its database, and programs may rely on it. Of
    # the four classes all but `SqlSaver`, which has what savers share, have LangGraph's names.
    "milepost.checkpoint.postgres.shallow": 4,
    "milepost.checkpoint.redis.ashallow": 4,
    "milepost.checkpoint.redis.shallow": 4,
    # What programs catch: a name for each thing to do, below the names for everything.
    "milepost.errors": 5,
}


def depth_of(kind: type) -> int:
    """How many classes of milepost are above each other, the class itself counted."""
    above = [base for base in kind.__bases__ if base.__module__.startswith("milepost.")]
    return 1 + max(map(depth_of, above), default=0)


def classes_of_milepost() -> list[type]:
    found = []
    for module in pkgutil.walk_packages(milepost.__path__, "milepost."):
        if module.name.endswith(("__main__", "milepost.as_langgraph")) or "._shims" in module.name:
            continue  # they act when they are imported, or need a framework
        for kind in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(kind) and kind.__module__ == module.name:
                found.append(kind)
    return found


def test_no_class_has_a_long_chain_of_classes_above_it():
    kinds = classes_of_milepost()
    assert len(kinds) > 300
    depths: dict[str, int] = {}
    for kind in kinds:
        if (depth := depth_of(kind)) > MOST_CLASSES:
            depths[kind.__module__] = max(depth, depths.get(kind.__module__, 0))
    assert depths == LONG_CHAINS


def test_no_class_of_the_engine_has_many_classes_above_it():
    engine = [one for one in classes_of_milepost() if one.__module__.startswith("milepost._engine")]
    many = {}
    for kind in engine:
        above = [one for one in kind.__mro__ if one.__module__.startswith("milepost.")]
        if len(above) > MOST_CLASSES:
            many[kind.__name__] = above
    assert many == {}


def test_no_record_or_class_with_slots_has_more_than_about_twenty_attributes():
    many = set()
    for kind in classes_of_milepost():
        slots = [name for one in kind.__mro__ for name in vars(one).get("__slots__", ())]
        if len(slots) > MOST_ATTRIBUTES:
            many.add(kind.__name__)
    assert many == set()


def test_a_saver_has_no_more_than_about_twenty_attributes(saver):
    assert len(vars(saver)) <= MOST_ATTRIBUTES


class OnlyDriven(InMemorySaver):
    """A saver that may be called only while a driver carries out an effect."""

    driven = False

    def commit(self, *given: Any) -> Any:
        assert self.driven, "commit"
        return super().commit(*given)

    def get_tuple(self, *given: Any) -> Any:
        assert self.driven, "get_tuple"
        return super().get_tuple(*given)

    def release(self, *given: Any) -> Any:
        assert self.driven, "release"
        return super().release(*given)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_never_calls_its_saver_itself(config, durability):
    saver = OnlyDriven()
    graph = counting(lambda state: {"count": state["count"] + 1}).compile(checkpointer=saver)
    settings = RunSettings(config=config, checkpointer=saver, durability=durability)
    driver = SyncDriver()
    steps = GeneratorDriver(GraphRun(graph.program, settings, EventStream()).run({"count": 0}))
    for effect in steps:
        assert effect is not AWAIT
        if isinstance(effect, Start):
            for _, program in effect.tasks:
                drive(program, driver.carry_out)
            steps.answer = [task for task, _ in effect.tasks]
            continue
        saver.driven = True
        steps.answer = driver.carry_out(effect)
        saver.driven = False
    assert steps.result == {"count": 3}
    saver.driven = True
    assert graph.get_state(config).values == {"count": 3}


@pytest.mark.parametrize("on_conflict", ["newest", "reject"])
def test_claims_are_renewed_by_the_driver_and_only_where_a_run_has_one(
    config, on_conflict, monkeypatch, tmp_path
):
    kept: list[str] = []
    monkeypatch.setattr(leases, "keep", lambda saver, thread_id, fence: kept.append(thread_id))
    effects: list[str] = []
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = counting(lambda state: {"count": 3}).compile(checkpointer=saver)
        settings = RunSettings(
            config=config, checkpointer=saver, durability="sync", on_conflict=on_conflict
        )
        driver = SyncDriver()
        steps = GeneratorDriver(GraphRun(graph.program, settings, EventStream()).run({"count": 0}))
        for effect in steps:
            assert len(kept) == effects.count("KeepClaim"), "by the generator itself"
            effects.append(type(effect).__name__)
            steps.answer = driver.carry_out(effect)
    claims = ["HoldThread", "KeepClaim"] if on_conflict == "reject" else []
    assert [name for name in effects if name in ("HoldThread", "KeepClaim")] == claims
    assert kept == ["t"] * len(claims[1:])


def test_claims_of_runs_on_an_event_loop_are_renewed_too(config, monkeypatch, tmp_path):
    kept: list[str] = []
    monkeypatch.setattr(leases, "keep", lambda saver, thread_id, fence: kept.append(thread_id))
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        graph = counting(lambda state: {"count": 3}).compile(checkpointer=saver)
        asyncio.run(graph.ainvoke({"count": 0}, config, on_conflict="reject"))
    assert kept == ["t"]


def trace_step() -> Any:
    spec = importlib.util.spec_from_file_location("trace_step", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["trace_step"] = module
    spec.loader.exec_module(module)
    return module


def test_a_super_step_plans_runs_applies_encodes_and_commits_in_this_order():
    tool = trace_step()
    calls = tool.trace_step()
    names = [call.function for call in calls]
    way = [
        "plan",
        "perform",
        "apply_writes",
        "CheckpointWriter.save_checkpoint",
        "SqlSaver.prepare",
        "SyncDriver._save",
        "GroupCommits.commit",
    ]
    assert sorted(way, key=names.index) == way


def test_the_way_of_a_super_step_can_be_printed():
    printed = subprocess.run(
        [sys.executable, str(TOOL)], capture_output=True, text=True, timeout=60, check=True
    )
    first, *calls = printed.stdout.splitlines()
    assert first.startswith(f"{len(calls)} calls, ")
    assert len(calls) <= MOST_CALLS  # in a process of its own: what others load may add some
    assert "_engine/superstep/apply.py" in printed.stdout
