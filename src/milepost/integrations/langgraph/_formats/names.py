"""The names of tasks, inner graphs and interrupts in the two libraries.

Both name a task by a digest of its position: checkpoint, namespace, step, node, path. The
digests differ, so a thread that waits in the middle of a step is moved by recognising each task
under one name and giving it the other. What is not recognised keeps its name: the task then runs
again.

Nodes are read off the channels. A `@task` function that a node has called is named nowhere but in
a digest, so the names that the program's source offers are tried.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost._engine.superstep.plan import path_text
from milepost._internal.ids import digest_id, interrupt_id
from milepost._internal.supported import needed
from milepost.constants import BRANCH_TO, NS_END, NS_SEP, NULL_TASK_ID, PULL, PUSH, START, TASKS
from milepost.errors import MilepostError
from milepost.types import Interrupt, Send, _Answered

if TYPE_CHECKING:
    from milepost.checkpoint._contract.records import CheckpointTuple

_digest: Callable[[bytes], str] = needed("xxhash").xxh3_128_hexdigest

_MOST_ANSWERS: Final = 64
"""How many interrupts of one task are looked for."""


class _Base(NamedTuple):
    """What all tasks of a step have in common."""

    checkpoint_id: str
    step: str
    our_ns: str
    their_ns: str


class _Position(NamedTuple):
    """The position of a task, in the words of one library."""

    name: str
    path: str
    id: str
    ns: str
    """The namespace of graphs that the task runs."""


class _TaskPair(NamedTuple):
    """A task, named as both libraries name it."""

    ours: _Position
    theirs: _Position


@dataclass
class Names:
    """What was recognised in one thread: names there to names here."""

    to_langgraph: bool = False
    """The direction: False when a thread comes from LangGraph."""
    called: Sequence[str] = ()
    """Names that `@task` functions may have."""
    tasks: dict[str, str] = field(default_factory=dict)
    spaces: dict[str, str] = field(default_factory=dict)
    interrupts: dict[str, str] = field(default_factory=dict)

    nodes: dict[str, str] = field(default_factory=dict)
    """The nodes of tasks, by their names on this side."""
    paths: dict[str, str] = field(default_factory=dict)
    """The paths of tasks, by their names on the other side."""

    def learn(self, found: CheckpointTuple, stored: Mapping[str, str]) -> None:
        """Recognise the tasks that start from a checkpoint. Enclosing graphs come first.

        `stored` has the paths of the tasks that wrote something, where the source keeps them.
        """
        ns = found.config["configurable"].get("checkpoint_ns", "")
        spaces = (ns, self.space(ns)) if self.to_langgraph else (self.space(ns), ns)
        base = _Base(
            found.checkpoint["id"], str(found.metadata.get("step", -2) + 1), spaces[0], spaces[1]
        )
        wrote = {task_id for task_id, _, _ in found.pending_writes or ()}
        known: dict[str, list[_TaskPair]] = {}
        for pair in _planned(base, found, stored.values()):
            known.setdefault(self._note(pair, wrote), []).append(pair)
        for task_id, path in sorted(stored.items(), key=lambda task: len(task[1])):
            caller, at = self._call(path)
            if task_id not in self.tasks and caller in known:
                called = self._find_call(task_id, base, known[caller], at)
                if called is not None:
                    known.setdefault(self._note(called, wrote), []).append(called)

    def _find_call(
        self, task_id: str, base: _Base, callers: Sequence[_TaskPair], at: int
    ) -> _TaskPair | None:
        for name in self.called:
            for caller in reversed(callers):
                pair = _called(base, caller, name, at)
                if task_id == (pair.ours.id if self.to_langgraph else pair.theirs.id):
                    # It is likely to be met again.
                    self.called = [name, *(other for other in self.called if other != name)]
                    return pair
        return None

    def _note(self, pair: _TaskPair, wrote: Collection[str]) -> str:
        """Remember a task; returns its path on this side."""
        ours, theirs = pair
        old, new = (ours, theirs) if self.to_langgraph else (theirs, ours)
        self.tasks[old.id] = new.id
        self.paths[new.id] = new.path
        self.nodes[old.id] = old.name
        self.spaces[old.ns] = new.ns
        for at in range(_MOST_ANSWERS if old.id in wrote else 0):
            ids = interrupt_id(ours.ns, at), _their_interrupt(theirs.ns, at)
            old_id, new_id = ids if self.to_langgraph else ids[::-1]
            self.interrupts[old_id] = new_id
        return old.path

    def _call(self, path: str) -> tuple[str, int]:
        """The path of the task that made a call, and how many it had made before."""
        start = f"~{PUSH}, "
        if not path.startswith(f"{start}~"):
            return "", 0
        text = path.removeprefix(start)
        if not self.to_langgraph:
            text = text.removesuffix(_IS_CALL)
        caller, _, at = text.rpartition(", ")
        return (caller, int(at)) if at.isdigit() else ("", 0)

    def inside(self, ns: str, id: str) -> dict[str, str]:
        """The namespace of what runs inside a task, and that on the other side."""
        own = _inside(ns, self.nodes[id], id)
        return {own: self.spaces[own]}

    def task(self, id: str) -> str:
        """A task's name on the other side."""
        return self.tasks.get(id, id)

    def knows(self, id: str) -> bool:
        """Whether a task was recognised. Writes that came with a Command belong to no task."""
        return id in self.tasks or id.startswith(NULL_TASK_ID[:24])

    def space(self, ns: str) -> str:
        """A namespace on the other side."""
        if ns == "" or ns in self.spaces:
            return self.spaces.get(ns, ns)
        above, _, last = ns.rpartition(NS_SEP)
        outer = self.space(above)
        return f"{outer}{NS_SEP}{last}" if outer else last

    def knows_all(self, raised: Any) -> bool:
        """Whether the interrupts that a task raised were recognised."""
        questions = raised if isinstance(raised, (list, tuple)) else [raised]
        return all(one.id in self.interrupts for one in questions if isinstance(one, Interrupt))

    def value(self, value: Any) -> Any:
        """The interrupts that a task raised, under the names of the other side."""
        if isinstance(value, _Answered):
            return _Answered(self.value(value.interrupt))
        if isinstance(value, (list, tuple)):
            # LangGraph does not keep questions that were answered.
            kept = [v for v in value if not (self.to_langgraph and isinstance(v, _Answered))]
            return [self.value(one) for one in kept]
        if isinstance(value, Interrupt):
            return replace(value, id=self.interrupts.get(value.id, value.id))
        return value


def _inside(ns: str, name: str, task_id: str) -> str:
    own = f"{name}{NS_END}{task_id}"
    return f"{ns}{NS_SEP}{own}" if ns else own


def _their_interrupt(ns: str, answered: int) -> str:
    text = f"{ns}{NS_SEP}{answered}" if answered else ns
    return _digest(text.encode())


def _ours(base: _Base, ns: str, name: str, path: str) -> _Position:
    id = digest_id(base.checkpoint_id, ns, base.step, name, path)
    return _Position(name, path, id, _inside(ns, name, id))


def _theirs(base: _Base, ns: str, name: str, path: str, triggers: Sequence[str]) -> _Position:
    space = f"{ns}{NS_SEP}{name}" if ns else name
    start = bytes.fromhex(base.checkpoint_id.replace("-", ""))
    text = _digest(start + "".join([space, base.step, name, *triggers]).encode())
    id = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    return _Position(name, path, id, _inside(ns, name, id))


_IS_CALL: Final = f", {1:010d}"
_IS_SEND: Final = f", {0:010d}"
"""How LangGraph ends the path of a task that was called, and of one that was sent."""


def _called(base: _Base, caller: _TaskPair, name: str, at: int) -> _TaskPair:
    """A task that a running one has called."""
    ours, theirs = caller
    our_path, their_path = (f"~{PUSH}, {position.path}, {at:010d}" for position in caller)
    triggers = (PUSH, theirs.path, str(at))
    return _TaskPair(
        _ours(base, ours.ns, name, our_path),
        _theirs(base, theirs.ns, name, f"{their_path}{_IS_CALL}", triggers),
    )


def _planned(base: _Base, found: CheckpointTuple, paths: Iterable[str]) -> Iterator[_TaskPair]:
    """Tasks that may start from a checkpoint.

    The graph itself is not at hand, so they are read off its channels. LangGraph's digest has the
    triggers of a task in it; where several are possible, the likeliest comes last.
    """
    checkpoint = found.checkpoint
    for at, send in enumerate(checkpoint["channel_values"].get(TASKS) or ()):
        if isinstance(send, Send):
            name, place = send.node, f"~{PUSH}, {at:010d}"
            yield _TaskPair(
                _ours(base, base.our_ns, name, path_text((PUSH, at, False))),
                _theirs(base, base.their_ns, name, f"{place}{_IS_SEND}", (PUSH, str(at))),
            )
    triggers: dict[str, list[str]] = {name: [] for name in (START, *checkpoint["versions_seen"])}
    triggers |= {path.rpartition(", ")[2]: [] for path in paths if path.startswith(f"~{PULL}, ")}
    for channel in checkpoint["channel_versions"]:
        if channel.startswith((BRANCH_TO, "join:")):
            triggers.setdefault(channel.rpartition(":")[2], []).append(channel)
    for name, channels in triggers.items():
        # A node of a StateGraph has one channel for edges and one for each join; the only node of
        # a function's graph has the input.
        edge = f"{BRANCH_TO}{name}"
        groups = [(START,), (edge,), tuple(sorted({edge, *channels}))]
        path = path_text((PULL, name))
        for group in dict.fromkeys(groups if channels else reversed(groups)):
            ours = _ours(base, base.our_ns, name, path)
            yield _TaskPair(ours, _theirs(base, base.their_ns, name, path, (PULL, *group)))


# -- names that `@task` functions may have, read off a program's source: nothing of it is run


def names_in(paths: Iterable[str]) -> list[str]:
    """The names of all functions and classes in these files and folders, and what `name=` says."""
    found: dict[str, None] = {}
    for path in paths:
        for file in _files(path):
            for node in ast.walk(_parsed(file)):
                found.update(dict.fromkeys(_names_of(node)))
    return list(found)


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, _, files in os.walk(path):
        yield from (os.path.join(folder, file) for file in sorted(files) if file.endswith(".py"))


def _parsed(file: str) -> ast.Module:
    try:
        with open(file, "rb") as source:
            return ast.parse(source.read(), file)
    except (OSError, SyntaxError, ValueError) as error:
        raise MilepostError(f"The program '{file}' cannot be read: {error}") from error


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.keyword(arg="name", value=ast.Constant(value=str(name))):
            yield name
