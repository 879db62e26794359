"""Does the operations of a case to a built graph, and says what could be observed of each.

An observation is plain data without ids and times, so that those of two libraries are compared
with `==`, but for what on_purpose.py names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from typing import Any

from build import Boom, Built, bare, tail
from on_purpose import ASKED, DIFFERENCES, NOT_COMPARED, open_questions
from spec import Case, Op

from harness import AsyncHarness, SyncHarness

LIMIT = 14
"""Steps that a run may take, so that loops come to an end."""

CONFIG = {"configurable": {"thread_id": "t"}}

SAME_REFUSAL = {"UnknownInterruptError": "RuntimeError"}
"""milepost's error → LangGraph's, where the names differ."""


class Run:
    """A case in progress on one library, in one colour, with one durability."""

    def __init__(
        self, root: str, case: Case, colour: str, durability: str, log: Any = tail
    ) -> None:
        self.case = case
        self.durability = durability
        self.peer = root == "langgraph"
        self.harness = AsyncHarness() if colour == "async" else SyncHarness()
        # The peer's nodes are all coroutines: on one event loop nothing of it depends on timing.
        every = 1 if self.peer else 2
        coroutines = every if colour == "async" else None
        self.built = Built(root, case.graph, coroutines=coroutines, log=log)
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
        if not (opened := open_questions(head)):
            return self._run(op, seen, None, CONFIG)
        seen["answered"] = sorted({str(one.value) for one in opened.values()})
        self.resumed.add(str(head.config))
        return self._run(op, seen, self.built.library.command(resume=f"yes {op.number}"), CONFIG)

    def _answer(self, op: Op, seen: dict[str, Any]) -> None:
        """Answer by id: some of the open interrupts, picked by the bits of the number."""
        opened = list(open_questions(self.state()).values())
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
