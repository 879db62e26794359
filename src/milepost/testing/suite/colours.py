"""Sync and async: a result or a typed error at once, wherever a method is called from."""

from __future__ import annotations

from typing import Any

from milepost.errors import MilepostError
from milepost.testing.clauses import Trait, clause, holds, same
from milepost.testing.desk import Desk
from milepost.testing.effects import Misplaced, Program, call, caught
from milepost.testing.failures import ClauseFailed
from milepost.testing.suite.graphs import Log, line


def _five_calls(desk: Desk) -> dict[str, tuple[Any, ...]]:
    trail = desk.trail("elsewhere")
    checkpoint, changed = trail.next(key=1)
    at = trail.at(checkpoint["id"])
    return {
        "put": (trail.root, checkpoint, {"step": 0}, changed),
        "put_writes": (at, [("key", 1)], "task"),
        "get_tuple": (at,),
        "list": (trail.root,),
        "delete_thread": (trail.thread_id,),
    }


def _is_typed(error: Exception | None) -> bool:
    if isinstance(error, ClauseFailed):  # it hangs
        return False
    return isinstance(error, MilepostError | NotImplementedError)


@clause("colours")
def methods_answer_at_once_in_awkward_places(desk: Desk) -> Program[None]:
    """A sync method called on the loop, and an async one on another loop, work or say why not."""
    trail = desk.trail()
    yield from trail.put(key=1)
    for method, arguments in _five_calls(desk).items():
        error = yield from caught(Misplaced(call(desk.saver, method, *arguments)))
        holds(error is None or _is_typed(error), f"{method} raised {error!r}")
    same((yield from trail.steps()), [0], "the thread afterwards")


@clause("colours", Trait.NO_COLOUR)
def a_missing_colour_is_refused(desk: Desk) -> Program[None]:
    """Each of the five methods that is not there in this colour says so."""
    for method, arguments in _five_calls(desk).items():
        error = yield from caught(call(desk.saver, method, *arguments))
        holds(_is_typed(error), f"{method} raised {error!r}, not NotImplementedError")


@clause("colours", Trait.NO_COLOUR)
def a_graph_of_the_other_colour_runs_or_is_refused(desk: Desk) -> Program[None]:
    """A graph called in the colour that the saver lacks runs, or says at once why it cannot."""
    graph = line("a", "b").compile(checkpointer=desk.saver)
    try:
        result: Log = yield call(graph, "invoke", {"log": []}, desk.config(), durability="sync")
        state = yield call(graph, "get_state", desk.config())
    except Exception as error:
        holds(_is_typed(error), f"it raised {error!r}")
    else:
        same(result["log"], ["a", "b"], "what the graph returned")
        same(state.values["log"], ["a", "b"], "what is stored")
