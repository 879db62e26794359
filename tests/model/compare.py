"""Does the operations of a case to a built graph, and says what could be observed of each.

An observation is plain data without ids and times, so that those of two libraries are compared
with `==`. Everything in which milepost differs on purpose is at the end of this file: operations
that are left out where the two go separate ways (`NOT_COMPARED`), and what is not compared of an
outcome (`DIFFERENCES`). What is never generated stands in strategies.py, and docs/differences.md
says why we differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Set
from copy import deepcopy
from typing import Any

from build import Boom, Built, bare
from spec import Case, Op

from harness import AsyncHarness, SyncHarness

ASKED = "__interrupt__"

LIMIT = 14
"""Steps that a run may take, so that loops come to an end."""

CONFIG = {"configurable": {"thread_id": "t"}}

SAME_REFUSAL = {"UnknownInterruptError": "RuntimeError"}
"""milepost's error → LangGraph's, where the names differ."""


class Run:
    """A case in progress on one library, in one colour, with one durability."""

    def __init__(self, root: str, case: Case, colour: str, durability: str) -> None:
        self.case = case
        self.durability = durability
        self.peer = root == "langgraph"
        self.harness = AsyncHarness() if colour == "async" else SyncHarness()
        # The peer's nodes are all coroutines: on one event loop nothing of it depends on timing.
        every = 1 if self.peer else 2
        self.built = Built(root, case.graph, coroutines=every if colour == "async" else None)
        self.graph = self.built.graph
        self.remembering = {
            node.name
            for node in case.graph.nodes
            if node.memory or (node.child and any(n.memory for n in node.child.everywhere()))
        }
        """Nodes of the graph with a subgraph, at any depth, that has memory of its own."""
        self.resumed: set[str] = set()
        """Where a value was given to an interrupt."""
        self.called_again: set[tuple[str, str]] = set()
        """Where a node had begun a second call of its subgraph: the first has ended."""

    def observe(self) -> list[dict[str, Any]]:
        """Do everything; one observation for each operation, and the history at the end."""
        try:
            seen = [self._do(op) for op in self.case.ops]
            return [*seen, {"history": self._history()}]
        finally:
            self.harness.close()

    # -- operations

    def _do(self, op: Op) -> dict[str, Any]:
        self.built.trace.clear()
        seen: dict[str, Any] = {"op": op}
        if any(excludes(self, op) for excludes in NOT_COMPARED):
            return seen
        try:
            getattr(self, f"_{op.kind}")(op, seen)
        except Exception as error:
            seen["raised"] = _refusal(error)
        seen["trace"] = _by_step(self.built.trace)
        if self.case.serial():
            seen["order"] = [ns for ns, _, phase in self.built.trace if phase == "start"]
        head = self.state()
        seen["state"] = self._snapshot(head, nested=True)
        seen["exit"] = self.durability == "exit"
        names = [ns.partition("|")[0] for ns, _, _ in self.built.trace if "|1|" in ns]
        self.called_again |= {(str(head.config), name) for name in names}
        return seen

    def _input(self, op: Op, seen: dict[str, Any]) -> None:
        self._run(op, seen, {"log0": [f"input {op.number}"], "count": op.number}, CONFIG)

    def _go_on(self, op: Op, seen: dict[str, Any]) -> None:
        self._run(op, seen, None, CONFIG)

    def _resume(self, op: Op, seen: dict[str, Any]) -> None:
        head = self.state()
        if not (opened := _open(head)):
            return self._run(op, seen, None, CONFIG)
        seen["answered"] = sorted({str(one.value) for one in opened.values()})
        self.resumed.add(str(head.config))
        return self._run(op, seen, self.built.library.command(resume=f"yes {op.number}"), CONFIG)

    def _answer(self, op: Op, seen: dict[str, Any]) -> None:
        """Answer by id: some of the open interrupts, picked by the bits of the number."""
        opened = list(_open(self.state()).values())
        asked = sorted({one.value for one in opened})
        chosen = [value for at, value in enumerate(asked) if op.number >> at & 1] or asked
        picked = [one for one in opened if one.value in chosen]
        answers = {one.id: f"{one.value} {op.number}" for one in picked}
        seen["partly"] = len(picked) < len(opened)
        seen["answered"] = sorted({str(one.value) for one in picked})
        self._run(op, seen, self.built.library.command(resume=answers) if answers else None, CONFIG)

    def _replay(self, op: Op, seen: dict[str, Any]) -> None:
        self._run(op, seen, None, self._at(op))

    def _update(self, op: Op, seen: dict[str, Any]) -> None:
        config = CONFIG if op.at is None else self._at(op)
        self._write(op, config)

    def _fork(self, op: Op, seen: dict[str, Any]) -> None:
        forked = self._write(op, self._at(op))
        self._run(op, seen, None, forked if op.explicit else CONFIG)

    def _write(self, op: Op, config: Any) -> Any:
        values = {"log0": [f"update {op.number}"], "count": op.number}
        as_node = None if op.as_node is None else self.name(op.as_node)
        return self.harness.update_state(self.graph, config, values, as_node=as_node)

    def name(self, number: int | None) -> str:
        nodes = self.case.graph.nodes
        if number is None or number < 0:
            return self.built.library.start
        return nodes[number % len(nodes)].name

    def base(self, op: Op) -> Any:
        """The snapshot that an operation starts from."""
        history = self.harness.history(self.graph, CONFIG)
        if op.at is None or not history:
            return self.state()
        return history[op.at % len(history)]

    def _at(self, op: Op) -> Any:
        return self.base(op).config

    def _run(self, op: Op, seen: dict[str, Any], given: Any, config: Any) -> None:
        config = {**config, "recursion_limit": op.limit or LIMIT}
        if self.peer:
            # One task at a time, in their order: what else is done when one fails is then certain.
            config["max_concurrency"] = 1
        options: dict[str, Any] = {"durability": self.durability}
        if op.before:
            options["interrupt_before"] = [self.name(number) for number in op.before]
        if op.after:
            options["interrupt_after"] = [self.name(number) for number in op.after]
        if op.streamed:
            options |= {"stream_mode": ["updates", "values"], "subgraphs": True}
            events: list[Any] = []
            try:
                self.harness.stream(_Kept(self.graph, events), given, config, **options)
            finally:
                seen["events"] = _segments(events)
        else:
            seen["returned"] = _plain(self.harness.invoke(self.graph, given, config, **options))

    # -- observations

    def state(self) -> Any:
        return self.harness.get_state(self.graph, CONFIG, subgraphs=True)

    def _snapshot(self, snapshot: Any, *, nested: bool) -> dict[str, Any]:
        return {
            "values": snapshot.values,
            "next": snapshot.next,
            "source": (snapshot.metadata or {}).get("source"),
            "step": (snapshot.metadata or {}).get("step"),
            "interrupts": sorted(str(one.value) for one in snapshot.interrupts),
            "tasks": [
                {
                    "name": task.name,
                    "failed": task.error is not None,
                    "asks": len(task.interrupts),
                    "result": task.result,
                    "state": self._snapshot(task.state, nested=True)
                    if nested and hasattr(task.state, "values") and not isinstance(task.state, dict)
                    else None,
                }
                for task in snapshot.tasks
            ],
        }

    def _history(self) -> list[dict[str, Any]]:
        shown = [
            self._snapshot(snapshot, nested=False)
            for snapshot in self.harness.history(self.graph, CONFIG)
        ]
        updated = any(op.kind in ("update", "fork") for op in self.case.ops)
        for snapshot in shown:
            del snapshot["interrupts"]
            for task in snapshot["tasks"]:
                del task["asks"], task["state"]
                if updated:
                    # An update leaves the snapshot that it starts from as it was; in LangGraph it
                    # shows there as the result of the node whose place it takes.
                    del task["result"]
        return shown


class _Kept:
    """A graph whose streamed events are kept, also when the run ends with an error."""

    def __init__(self, graph: Any, events: list[Any]) -> None:
        self.graph = graph
        self.events = events

    def stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        for event in self.graph.stream(*args, **kwargs):
            self.events.append(event)
            yield event

    async def astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for event in self.graph.astream(*args, **kwargs):
            self.events.append(event)
            yield event


def _open(snapshot: Any) -> dict[str, Any]:
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
                opened |= _open(task.state)
    return opened


def _refusal(error: Exception) -> str:
    if isinstance(error, Boom):
        return f"Boom: {error}"
    name = type(error).__name__
    return SAME_REFUSAL.get(name, name)


def _plain(value: Any) -> Any:
    """Interrupts without their ids, in the order of their questions."""
    if isinstance(value, dict) and ASKED in value:
        asked = sorted(str(one.value) for one in value[ASKED])
        return {**value, ASKED: asked}
    return value


def _by_step(trace: list[tuple[str, int, str]]) -> dict[Any, int]:
    """How often each node was started and ended in each step of each (nested) graph."""
    return dict(Counter(trace))


def _segments(events: list[Any]) -> list[Any]:
    """What was streamed: for each (nested) graph, the updates of each step and the values after it.

    Updates of one step come in any order; so do those of graphs that run side by side.
    """
    runs: dict[tuple[str, ...], list[Any]] = {}
    for ns, mode, payload in events:
        run = runs.setdefault(ns, [[]])
        if mode == "updates":
            run[-1].append(_plain(payload))
        else:
            run[-1].sort(key=repr)
            run += [_plain(payload), []]
    for run in runs.values():
        run[-1].sort(key=repr)
    return sorted(((bare("|".join(ns)), run) for ns, run in runs.items()), key=repr)


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
    return again and bool(_open(head)) and str(head.config) in run.resumed


def _one_answer_beside_a_failure(run: Run, op: Op) -> bool:
    """One value for several questions is refused, also when they wait in a subgraph where a
    sibling failed; LangGraph, which shows none of them outside, gives it to one."""
    head = run.state()
    return op.kind == "resume" and len(_open(head)) > 1 and any(task.error for task in head.tasks)


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


def differs(peer: list[Any], ours: list[Any]) -> str | None:
    """The first observation in which the two runs differ, or None."""
    for number, (theirs, mine) in enumerate(zip(peer, ours, strict=True)):
        theirs, mine = deepcopy(theirs), deepcopy(mine)
        if "state" in theirs and "state" in mine:
            for difference in DIFFERENCES:
                difference(theirs, mine)
        if theirs != mine:
            what = [
                f"  {key}:\n    langgraph {theirs.get(key)!r}\n    milepost  {mine.get(key)!r}"
                for key in sorted(theirs.keys() | mine.keys())
                if theirs.get(key) != mine.get(key)
            ]
            return "\n".join([f"operation {number}: {theirs.get('op', 'the end')}", *what])
    return None


def only_what_was_answered_runs_again(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    """Answering some interrupts by id leaves the other tasks alone; LangGraph starts them, too."""
    if theirs.get("partly"):
        for seen in (theirs, mine):
            seen["trace"] = {key: n for key, n in seen["trace"].items() if key[2] == "end"}
            seen.pop("order", None)
            if "events" in seen:
                seen["events"] = [(ns, run) for ns, run in seen["events"] if not ns or _told(run)]


def _told(run: list[Any]) -> bool:
    return any(
        isinstance(update, dict) for part in run if isinstance(part, list) for update in part
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
    """Under `exit` the state inside a task that waits may be one that has ended; LangGraph's is
    then that of the run before, or there is none."""

    def strip(theirs: dict[str, Any], mine: dict[str, Any]) -> None:
        for their, my in zip(theirs["tasks"], mine["tasks"], strict=False):
            if (state := my["state"]) is None:
                continue
            if my["result"] is None and not state["tasks"]:
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
