"""In which milepost differs on purpose, so that the two libraries are not compared.

`NOT_COMPARED`: operations that are left out where the two go separate ways. `DIFFERENCES`: what is
not compared of an outcome. What is never generated is in strategies.py, and docs/differences.md
says why we differ.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from spec import Op

if TYPE_CHECKING:
    from compare import Run

ASKED = "__interrupt__"


def open_questions(snapshot: Any) -> dict[str, Any]:
    """What waits for an answer, at any level, by id.

    What is inside a task that has ended does not, though its state may still be that of a run
    before, if the last one saved nothing but its own end. A task that has failed waits for what is
    open inside it; LangGraph also lists what it had asked before, though that was answered.
    """
    opened: dict[str, Any] = {}
    for task in snapshot.tasks:
        if task.result is None:
            if task.error is None:
                opened |= {one.id: one for one in task.interrupts}
            if hasattr(task.state, "interrupts"):
                opened |= open_questions(task.state)
    return opened


# -- differences on purpose: operations whose outcome is not comparable


def _unstarted_memory(run: Run, op: Op) -> bool:
    """LangGraph takes the first call of a `checkpointer=True` subgraph in a resumed run for a
    resume of that subgraph too, and drops its input."""
    remembering = {node.name for node in run.case.graph.everywhere() if node.memory}
    if op.kind in ("input", "update"):
        return False

    def unstarted(snapshot: Any) -> bool:
        return any(
            (task.name in remembering and not task.interrupts and not task.error)
            or (hasattr(task.state, "tasks") and unstarted(task.state))
            for task in snapshot.tasks
            if task.result is None
        )

    return unstarted(run.state())


def _inferred_after_update(run: Run, op: Op) -> bool:
    """An update without `as_node` right after an update counts as the same node as that one;
    LangGraph passes over updates and takes the node that ran before them."""
    if op.kind not in ("update", "fork") or op.as_node is not None:
        return False
    return (run.base(op).metadata or {}).get("source") in ("update", "fork", "input")


def _replay_of_a_begun_fork(run: Run, op: Op) -> bool:
    """A replay always starts a new line of history; LangGraph's, of the thread's head when that
    is a fork, takes the step again in place, over what the first attempt has left there."""
    if op.kind != "replay":
        return False
    base, head = run.base(op), run.state()
    return (
        base.config == head.config
        and (head.metadata or {}).get("source") in ("update", "fork")
        and any(task.error or task.interrupts or task.result for task in head.tasks)
    )


def _update_for_a_waiting_node(run: Run, op: Op) -> bool:
    """An update as a node that is about to run takes the place of that run; in LangGraph the node
    still runs if a join or its being deferred made it wait."""
    if op.kind not in ("update", "fork"):
        return False
    graph = run.case.graph
    patient = {node.name for node in graph.nodes if node.defer} | {to for _, to in graph.joins}
    waiting = patient.intersection(task.name for task in run.base(op).tasks)
    return bool(waiting) and (op.as_node is None or run.name(op.as_node) in waiting)


def _abandoned_memory(run: Run, op: Op) -> bool:
    """What a `checkpointer=True` subgraph did in a step that never ended is not remembered when a
    new input or an update abandons that step; in LangGraph it is."""
    if op.kind not in ("input", "update"):
        return False
    return any(
        task.name in run.remembering and (task.interrupts or task.error or task.result)
        for task in run.state().tasks
    )


def _replayed_memory(run: Run, op: Op) -> bool:
    """A replay gives a `checkpointer=True` subgraph the memory of that moment; LangGraph finds it
    by comparing ids, which fails where a run has saved only its end."""
    return op.kind == "replay" and bool(run.remembering) and run.durability == "exit"


def _kept_siblings(run: Run, op: Op) -> bool:
    """An update in place of a task that waits keeps what the tasks beside it have written;
    LangGraph drops it."""
    if op.kind != "update" or op.at is not None or op.as_node is None:
        return False
    tasks = run.state().tasks
    waiting = {task.name for task in tasks if task.result is None}
    return run.name(op.as_node) in waiting and len(waiting) < len(tasks)


def _stale_answer(run: Run, op: Op) -> bool:
    """A question that is still open is asked again; LangGraph answers it with the value that a
    resume gave to the question before it."""
    head = run.state()
    again = op.kind in ("go_on", "answer")
    return again and bool(open_questions(head)) and str(head.config) in run.resumed


def _one_answer_beside_a_failure(run: Run, op: Op) -> bool:
    """One value for several questions is refused, also when they wait in a subgraph where a
    sibling failed; LangGraph, which shows none of them outside, gives it to one."""
    head = run.state()
    return (
        op.kind == "resume"
        and len(open_questions(head)) > 1
        and any(task.error for task in head.tasks)
    )


def _ended_call(run: Run, op: Op) -> bool:
    """Under `exit` a subgraph that a node has called and that has ended is saved if the node waits
    or fails after it; in LangGraph it runs again, and asks again what was answered."""
    if run.durability != "exit" or op.kind not in ("go_on", "resume", "answer"):
        return False
    head = run.state()
    waiting = {(str(head.config), task.name) for task in head.tasks if task.result is None}
    return bool(waiting & run.called_again)


NOT_COMPARED = [
    _abandoned_memory,
    _ended_call,
    _inferred_after_update,
    _kept_siblings,
    _one_answer_beside_a_failure,
    _replay_of_a_begun_fork,
    _replayed_memory,
    _stale_answer,
    _unstarted_memory,
    _update_for_a_waiting_node,
]

# -- differences on purpose: what is not compared of an outcome


def only_what_was_answered_runs_again(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """Answering some interrupts by id leaves the other tasks alone; LangGraph starts them, too."""
    if theirs.get("partly"):
        for seen in (theirs, mine):
            seen["trace"] = {key: n for key, n in seen["trace"].items() if key[2] == "end"}
            seen.pop("order", None)
            if "events" in seen:
                seen["events"] = [(ns, run) for ns, run in seen["events"] if not ns or _told(run)]


def _told(run: list[Any]) -> bool:
    """Whether something was done in a run: what had ended before it is told as cached."""
    return any(
        isinstance(update, dict) and "__metadata__" not in update
        for part in run
        if isinstance(part, list)
        for update in part
    )


def a_child_that_never_ran_has_no_state(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """`tasks[i].state` is None until the subgraph has saved something; LangGraph: an empty one."""

    def strip(snapshot: dict[str, Any]) -> None:
        for task in snapshot["tasks"]:
            if task["state"] is not None:
                if task["state"]["step"] is None:
                    task["state"] = None
                else:
                    strip(task["state"])

    strip(theirs["state"])
    strip(mine["state"])


def an_ended_call_is_saved_at_exit(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """Under `exit` the state inside a task that waits, or has ended beside one that waits, may be
    one that has ended; LangGraph's is then that of the run before, or there is none."""

    def strip(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
        for their, my in zip(theirs["tasks"], mine["tasks"], strict=False):
            if (state := my["state"]) is None:
                continue
            is_stale = their["state"] is not None and bool(their["state"]["tasks"])
            if not state["tasks"] and (my["result"] is None or is_stale):
                their["state"] = my["state"] = None
            elif their["state"] is not None:
                strip(their["state"], state)

    if mine.pop("exit") & theirs.pop("exit"):
        strip(theirs["state"], mine["state"])


def a_failed_subgraph_shows_its_questions(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """What waits inside a subgraph shows outside although a sibling in there failed; in LangGraph
    only the failure does, or again what was answered before it and milepost does not show."""

    def gather(snapshot: dict[str, Any], stale: Set[str]) -> set[str]:
        asked = set(snapshot["interrupts"])
        inside = [task for task in snapshot["tasks"] if task["state"] is not None]
        if any(task["failed"] for task in inside):
            asked -= stale
        for task in inside:
            asked |= gather(task["state"], stale)
            if task["failed"]:
                task["asks"] = len(task["state"]["interrupts"])
        snapshot["interrupts"] = sorted(asked)
        return asked

    shown = gather(mine["state"], set())
    gather(theirs["state"], set(theirs.pop("answered", ())) - shown)
    mine.pop("answered", None)
    for seen in (theirs, mine):
        if "raised" in seen and "events" in seen:
            told = [(ns, [_unasked(part) for part in run]) for ns, run in seen["events"]]
            asked = {one for _, run in seen["events"] for part in run for one in _questions(part)}
            seen["events"] = [sorted(asked), [(ns, [p for p in run if p]) for ns, run in told]]


def _questions(part: Any) -> list[str]:
    """The interrupts in a part of a run, once they are put together."""
    return [one for one in part if isinstance(one, str)] if isinstance(part, list) else []


def _unasked(part: Any) -> Any:
    return [one for one in part if isinstance(one, dict)] if isinstance(part, list) else part


def a_join_waits_for_the_end_of_the_step(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """While a step is unfinished, `next` and `tasks` are of that step; LangGraph adds the targets
    of joins that the finished tasks have completed."""

    def unfinished(snapshot: dict[str, Any]) -> None:
        tasks = snapshot["tasks"]
        if any(task["result"] is not None for task in tasks):
            snapshot["tasks"] = tasks = [task for task in tasks if _begun(task)]
            left = [task["name"] for task in tasks if task["result"] is None]
            snapshot["next"] = tuple(name for name in snapshot["next"] if name in left)
        for task in tasks:
            if task["state"] is not None:
                unfinished(task["state"])

    unfinished(theirs["state"])
    unfinished(mine["state"])


def _begun(task: dict[str, Any]) -> bool:
    return bool(task["failed"] or task["asks"] or task["state"] or task["result"] is not None)


def interrupts_of_a_step_are_streamed_together(
    theirs: dict[str, Any], mine: dict[str, Any]
) -> None:
    """A step's interrupts come at its end; LangGraph sends each as its task asks."""
    for seen in (theirs, mine):
        if "events" in seen:
            seen["events"] = sorted(((ns, _together(run)) for ns, run in seen["events"]), key=repr)


def _together(run: list[Any]) -> list[Any]:
    """The run's last step as one: its updates and its interrupts."""
    for at, part in enumerate(run):
        if isinstance(part, list) and any(ASKED in update for update in part):
            left = [update for part in run[at:] if isinstance(part, list) for update in part]
            return [
                *run[:at],
                sorted({question for update in left for question in update.get(ASKED, ())}),
                sorted((update for update in left if ASKED not in update), key=repr),
            ]
    return run


DIFFERENCES = [
    interrupts_of_a_step_are_streamed_together,
    an_ended_call_is_saved_at_exit,
    only_what_was_answered_runs_again,
    a_child_that_never_ran_has_no_state,
    a_failed_subgraph_shows_its_questions,
    a_join_waits_for_the_end_of_the_step,
]
