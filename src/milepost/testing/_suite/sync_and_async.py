"""Sync and async: a result or a typed error at once, wherever a method is called from."""

from __future__ import annotations

from typing import Any

from milepost.errors import MilepostError
from milepost.testing._kit.clauses import (
    ClauseFailed,
    KitEffects,
    Misplaced,
    Trait,
    call,
    caught,
    clause,
    holds,
    same,
)
from milepost.testing._kit.saver_fixture import SaverFixture
from milepost.testing._suite.graphs import Log, line


def _five_calls(fixture: SaverFixture) -> dict[str, tuple[Any, ...]]:
    thread = fixture.thread("elsewhere")
    checkpoint, changed = thread.next(key=1)
    at = thread.at(checkpoint["id"])
    return {
        "put": (thread.root, checkpoint, {"step": 0}, changed),
        "put_writes": (at, [("key", 1)], "task"),
        "get_tuple": (at,),
        "list": (thread.root,),
        "delete_thread": (thread.thread_id,),
    }


def _is_typed(error: Exception | None) -> bool:
    if isinstance(error, ClauseFailed):  # it hangs
        return False
    return isinstance(error, MilepostError | NotImplementedError)


@clause("colours")
def methods_answer_at_once_in_awkward_places(fixture: SaverFixture) -> KitEffects[None]:
    """A sync method called on the loop, and an async one on another loop, work or say why not."""
    thread = yield from fixture.started(key=1)
    for method, arguments in _five_calls(fixture).items():
        error = yield from caught(Misplaced(fixture.call(method, *arguments)))
        holds(error is None or _is_typed(error), f"{method} raised {error!r}")
    same((yield from thread.steps()), [0], "the thread afterwards")


@clause("colours", Trait.NO_METHODS)
def a_missing_colour_is_refused(fixture: SaverFixture) -> KitEffects[None]:
    """Each of the five methods that the saver lacks in this API says so."""
    for method, arguments in _five_calls(fixture).items():
        error = yield from caught(fixture.call(method, *arguments))
        holds(_is_typed(error), f"{method} raised {error!r}, not NotImplementedError")


@clause("colours", Trait.NO_METHODS)
def a_graph_of_the_other_colour_runs_or_is_refused(fixture: SaverFixture) -> KitEffects[None]:
    """A graph called through the API that the saver lacks runs, or says at once why it cannot."""
    graph = line("a", "b").compile(checkpointer=fixture.saver)
    try:
        result: Log = yield call(graph, "invoke", {"log": []}, fixture.config(), durability="sync")
        state = yield call(graph, "get_state", fixture.config())
    except Exception as error:
        holds(_is_typed(error), f"it raised {error!r}")
    else:
        same(result["log"], ["a", "b"], "what the graph returned")
        same(state.values["log"], ["a", "b"], "what is stored")
