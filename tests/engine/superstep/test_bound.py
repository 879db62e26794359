"""The node cache tells functions of one name apart by what is bound to them."""

import os
import subprocess
import sys
import threading
from functools import partial, wraps
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from milepost._engine.superstep import bound
from milepost.cache.memory import InMemoryCache
from milepost.errors import SerializationError
from milepost.func import entrypoint, task
from milepost.graph import START, StateGraph
from milepost.types import CachePolicy
from milepost.warnings import MilepostWarning


class State(TypedDict, total=False):
    x: Any


class Settings(BaseModel):
    model: Any


class Agent:
    def __init__(self, model: Any) -> None:
        self.model = model
        self.calls = 0

    def __call__(self, _: Any) -> Any:
        self.calls += 1
        return {"x": self.model}

    def method(self, _: Any) -> Any:
        return {"x": self.model}


class Slotted:
    __slots__ = ("model",)

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, _: Any) -> Any:
        return {"x": self.model}


def given(_: Any, model: Any) -> Any:
    return {"x": model}


def closure(model: Any) -> Any:
    return lambda _: {"x": model}


def default(model: Any) -> Any:
    return lambda _, model=model: {"x": model}


def keyword(model: Any) -> Any:
    return lambda _, *, model=model: {"x": model}


def calling(model: Any) -> Any:
    inner = closure(model)
    return lambda state: inner(state)


def graph(model: Any) -> Any:
    builder = StateGraph(State).add_node("inner", closure(model)).add_edge(START, "inner")
    return builder.compile()


def with_a_graph(model: Any) -> Any:
    inner = graph(model)
    return lambda state: inner.invoke(state)


def with_settings(model: Any) -> Any:
    settings = {"a": [Settings(model=model)], "b": {1, "b", (2, "c")}, "c": (Agent, os, len)}
    return lambda _: {"x": settings["a"][0].model}


def recursive(model: Any) -> Any:
    def count(state: Any, left: int = 2) -> Any:
        return count(state, left - 1) if left else {"x": model}

    return count


MAKERS: dict[str, Any] = {
    "partial": lambda model: partial(given, model=model),
    "object": Agent,
    "slots": Slotted,
    "method": lambda model: Agent(model).method,
    **{
        made.__name__: made
        for made in (
            *(closure, default, keyword, calling, graph, with_a_graph, with_settings),
            recursive,
        )
    },
}


def cached(function: Any, cache: Any, **options: Any) -> Any:
    builder = StateGraph(State, **options).add_node("node", function, cache_policy=CachePolicy())
    return builder.add_edge(START, "node").compile(cache=cache)


def ran(run: Any, graph: Any) -> tuple[Any, bool]:
    """What the node returns, and whether the cache had it."""
    (event,) = run.stream(graph, {"x": 0}, stream_mode="updates")
    return event["node"]["x"], "__metadata__" in event


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_bound_tells_functions_apart(run, kind):
    make, cache = MAKERS[kind], InMemoryCache()
    assert ran(run, cached(make("a"), cache)) == ("a", False)
    assert ran(run, cached(make("b"), cache)) == ("b", False)
    assert ran(run, cached(make("a"), cache)) == ("a", True)
    graph = cached(make("b"), cache)
    graph.clear_cache(["node"])
    for model in "ab":
        assert ran(run, cached(make(model), cache)) == (model, False)


def test_a_digest_is_the_same_in_every_process():
    program = (
        "from test_bound import MAKERS\nfrom milepost._engine.superstep.bound import bound_to\n"
        "print(*(bound_to(make('a')) for make in MAKERS.values()), sep='\\n')"
    )
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    (lines,) = told
    digests = [line for line in lines.splitlines() if line.endswith(", ())")]
    assert len(set(digests)) == len(MAKERS)


def lock_around(function: Any) -> Any:
    lock = threading.Lock()

    @wraps(function)
    def locked(state: Any) -> Any:
        with lock:
            return function(state)

    return locked


@lock_around
def in_this_module(_: Any) -> Any:
    return {"x": 1}


@pytest.mark.parametrize("function", [in_this_module, len, Agent, closure, os.path.join])
def test_a_function_that_a_module_has_is_told_by_its_name(function):
    assert bound.bound_to(function) == ("", ())


def test_a_function_without_anything_bound_is_told_by_its_name():
    assert bound.bound_to(lambda state: state) == ("", ())


def test_what_a_function_changes_when_it_runs_does_not_count(run):
    agent, cache = Agent("a"), InMemoryCache()
    assert ran(run, cached(agent, cache)) == ("a", False)
    assert agent.calls == 1
    assert ran(run, cached(agent, cache)) == ("a", True)


def test_what_cannot_be_told_apart_is_cached_with_a_warning_for_the_same_object_alone(run):
    one, another, cache = threading.Lock(), threading.Lock(), InMemoryCache()
    say = pytest.warns(MilepostWarning, match="'node' has a cache policy, and lock is bound to")
    for lock, was_cached in ((one, False), (one, True), (another, False)):
        with say:
            assert ran(run, cached(lambda _, lock=lock: {"x": lock.locked()}, cache))[1] == (
                was_cached
            )


def test_a_strict_graph_refuses_what_cannot_be_told_apart(run):
    lock = threading.Lock()
    graph = cached(lambda _: {"x": lock.locked()}, InMemoryCache(), strict=True)
    with pytest.raises(SerializationError, match="lock is bound to its function"):
        run.invoke(graph, {})


class Odd:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_objects_that_fail_when_they_are_looked_at_are_told_apart_by_themselves():
    odd = Odd()
    digest, unknown = bound.bound_to(closure(odd))
    assert (digest, unknown) == bound.bound_to(closure(odd)) != bound.bound_to(closure(Odd()))
    assert unknown == ("Odd",)


def test_nothing_is_remembered_of_objects_that_are_gone():
    before = len(bound._DIGESTS._found), len(bound._OWN_NAMES._found)
    bound.bound_to(closure(threading.Lock()))
    assert (len(bound._DIGESTS._found), len(bound._OWN_NAMES._found)) == before


def test_many_objects_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(bound, "_MAX_VALUES", 10)
    assert bound.bound_to(closure([1] * 100))[1] == ()
    assert bound.bound_to(closure([[]] * 100))[1] == ("list",)


def test_tasks_are_told_apart(run):
    def flow(model: Any) -> Any:
        called = []

        @task(cache_policy=CachePolicy())
        def work(_: Any, model: Any = model) -> Any:
            called.append(model)
            return model

        @entrypoint(cache=cache)
        def whole(value: Any) -> Any:
            return work(value).result(), len(called)

        return whole, work

    cache = InMemoryCache()
    assert run.invoke(flow("a")[0], 0) == ("a", 1)
    assert run.invoke(flow("b")[0], 0) == ("b", 1)
    again, work = flow("a")
    assert run.invoke(again, 0) == ("a", 0)
    work.clear_cache(cache)
    assert run.invoke(flow("b")[0], 0) == ("b", 1)
