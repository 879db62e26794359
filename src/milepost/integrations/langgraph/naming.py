"""The names of tasks, inner graphs and interrupts in the two libraries.

Both name a task by a digest of where it stands: checkpoint, namespace, step, node, path. The
digests differ, so a thread that waits in the middle of a step is moved by recognising each task
under one name and giving it the other. What is not recognised keeps its name: the task then runs
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from xxhash import xxh3_128_hexdigest

from milepost.constants import NS_END, NS_SEP, NULL_TASK_ID, PULL, PUSH, START, TASKS
from milepost.ids import digest_id
from milepost.runtime.pending import interrupt_id
from milepost.runtime.plan import path_text
from milepost.types import Interrupt, Send, _Answered

if TYPE_CHECKING:
    from milepost.checkpoint.records import CheckpointTuple

_MOST_ANSWERS: Final = 64
"""How many interrupts of one task are looked for."""


@dataclass
class Names:
    """What was recognised in one thread: names there to names here."""

    to_langgraph: bool = False
    """The direction: False when a thread comes from LangGraph."""
    tasks: dict[str, str] = field(default_factory=dict)
    spaces: dict[str, str] = field(default_factory=dict)
    interrupts: dict[str, str] = field(default_factory=dict)

    nodes: dict[str, str] = field(default_factory=dict)
    """The nodes of tasks, by their names on this side."""
    paths: dict[str, str] = field(default_factory=dict)
    """The paths of tasks, by their names on the other side."""

    def learn(self, found: CheckpointTuple, paths: Iterable[str] = ()) -> None:
        """Recognise the tasks that start from a checkpoint. Enclosing graphs come first.

        `paths` are those of its tasks, if the source has a column for them.
        """
        ns = found.config["configurable"].get("checkpoint_ns", "")
        other_ns = self.space(ns)
        step = str(found.metadata.get("step", -2) + 1)
        checkpoint_id = found.checkpoint["id"]
        for name, path, triggers in _candidates(found, paths):
            ours = digest_id(
                checkpoint_id, other_ns if not self.to_langgraph else ns, step, name, path
            )
            theirs = _their_task(
                checkpoint_id, ns if not self.to_langgraph else other_ns, step, name, triggers
            )
            old, new = (ours, theirs) if self.to_langgraph else (theirs, ours)
            self.tasks[old] = new
            self.paths[new] = path
            self.nodes[old] = name
            old_ns, new_ns = _inside(ns, name, old), _inside(other_ns, name, new)
            self.spaces[old_ns] = new_ns
            for at in range(_MOST_ANSWERS if _asks(found, old) else 0):
                old_id, new_id = _their_interrupt(old_ns, at), interrupt_id(new_ns, at)
                if self.to_langgraph:
                    old_id, new_id = interrupt_id(old_ns, at), _their_interrupt(new_ns, at)
                self.interrupts[old_id] = new_id

    def task(self, id: str) -> str:
        """A task's name on the other side."""
        return self.tasks.get(id, id)

    def knows(self, id: str) -> bool:
        """Whether a task was recognised, or is none: what came with a Command belongs to none."""
        return id in self.tasks or id.startswith(NULL_TASK_ID[:24])

    def space(self, ns: str) -> str:
        """A namespace on the other side."""
        if ns == "" or ns in self.spaces:
            return self.spaces.get(ns, ns)
        above, _, last = ns.rpartition(NS_SEP)
        outer = self.space(above)
        return f"{outer}{NS_SEP}{last}" if outer else last

    def value(self, value: Any) -> Any:
        """The interrupts that a task raised, under the names of the other side."""
        if isinstance(value, _Answered):
            return _Answered(self.value(value.interrupt))
        if isinstance(value, (list, tuple)):
            # LangGraph does not keep questions that were answered.
            kept = [v for v in value if not (self.to_langgraph and isinstance(v, _Answered))]
            return [self.value(one) for one in kept]
        if isinstance(value, Interrupt):
            return Interrupt(value.value, self.interrupts.get(value.id, value.id))
        return value


def _inside(ns: str, name: str, task_id: str) -> str:
    own = f"{name}{NS_END}{task_id}"
    return f"{ns}{NS_SEP}{own}" if ns else own


def _asks(found: CheckpointTuple, task_id: str) -> bool:
    return any(write[0] == task_id for write in found.pending_writes or ())


def _their_interrupt(ns: str, answered: int) -> str:
    text = f"{ns}{NS_SEP}{answered}" if answered else ns
    return xxh3_128_hexdigest(text.encode())


def _their_task(checkpoint_id: str, ns: str, step: str, name: str, triggers: Sequence[str]) -> str:
    space = f"{ns}{NS_SEP}{name}" if ns else name
    start = bytes.fromhex(checkpoint_id.replace("-", ""))
    text = xxh3_128_hexdigest(start + "".join([space, step, name, *triggers]).encode())
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _candidates(
    found: CheckpointTuple, paths: Iterable[str]
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Tasks that may start from a checkpoint: name, path, and what LangGraph's digest adds.

    The graph itself is not at hand, so they are read off its channels. LangGraph's digest has the
    triggers of a task in it; where several are possible, the likeliest comes last.
    """
    checkpoint = found.checkpoint
    sends = checkpoint["channel_values"].get(TASKS) or ()
    for at, send in enumerate(sends):
        if isinstance(send, Send):
            yield send.node, path_text((PUSH, at, False)), (PUSH, str(at))
    triggers: dict[str, list[str]] = {name: [] for name in (START, *checkpoint["versions_seen"])}
    triggers |= {path.rpartition(", ")[2]: [] for path in paths if path.startswith(f"~{PULL}, ")}
    for channel in checkpoint["channel_versions"]:
        if channel.startswith(("branch:to:", "join:")):
            triggers.setdefault(channel.rpartition(":")[2], []).append(channel)
    for name, channels in triggers.items():
        # A node of a StateGraph has one channel for edges and one for each join; the only node of
        # a function's graph has the input.
        edge = f"branch:to:{name}"
        groups = [(START,), (edge,), tuple(sorted({edge, *channels}))]
        for group in dict.fromkeys(groups if channels else reversed(groups)):
            yield name, path_text((PULL, name)), (PULL, *group)
