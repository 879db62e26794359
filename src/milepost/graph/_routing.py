"""From what nodes and branches return to what is written: updates, edges, commands.

What the state or the graph does not have is refused or passed over with a warning, by one rule for
nodes, commands, inputs and updates: see `Strictness`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost._engine.context.task_context import find_context
from milepost._engine.superstep.task import ReturnedRunnable
from milepost._internal.dataclass_tools import record
from milepost._internal.other_root import advice
from milepost._internal.pydantic_aliases import Aliases, by_name
from milepost._internal.texts import plain
from milepost._internal.warn import Strictness
from milepost._schema import annotated_keys, is_one_value, is_pydantic
from milepost.constants import BRANCH_TO, END, INPUT, JOIN, ROOT, START, TASKS
from milepost.errors import InvalidUpdateError, ParentCommand
from milepost.types import Command, Send

if TYPE_CHECKING:
    from milepost._engine.superstep.program import Write


_OF_BOTH = ("Command", "Send")
"""Classes that tell the graph what to do: LangGraph's would be taken for data."""


def edge_channel(node: str) -> str:
    """The channel that starts a node."""
    return f"{BRANCH_TO}{node}"


def join_channel(sources: Sequence[str], node: str) -> str:
    """The channel that starts a node once several others have run."""
    return f"{JOIN}{'+'.join(sources)}:{node}"


@record
class Router:
    """Turns targets into writes, for one graph."""

    graph: str
    nodes: Collection[str]
    strictness: Strictness
    delta: Collection[str] = ()
    """Keys of delta channels."""

    def target(self, target: Any, subject: str, culprit: object = None) -> Write | None:
        """The write that makes a target run; None for END, and for what is passed over."""
        if isinstance(target, Send):
            if target.node in self.nodes:
                return (TASKS, target)
            self._unknown(target.node, f"{subject} sent to", culprit)
            return None
        if isinstance(target, str):
            if target == END:
                return None
            if target in self.nodes:
                return (edge_channel(plain(target)), None)
        if hint := advice(target):
            raise InvalidUpdateError(f"{subject} goes to {target!r}.{hint}")
        self._unknown(target, f"{subject} goes to", culprit)
        return None

    def goto(self, target: Any) -> Write | None:
        """The write for a target of a Command from outside."""
        if target == END:
            self.refuse(
                "command to END",
                lambda: "A command that starts a run cannot go to END.",
                "It goes nowhere.",
            )
        return self.target(target, "The command")

    def _unknown(self, target: object, reference: str, culprit: object) -> None:
        self.refuse(
            ("target", reference, repr(target)),
            lambda: (
                f"{reference} {target!r}, which is not a node of graph '{self.graph}'. "
                f"Its nodes are: {', '.join(sorted(self.nodes))}."
            ),
            "It is passed over.",
            culprit,
        )

    def refuse(
        self, place: Hashable, message: Callable[[], str], instead: str, culprit: object = None
    ) -> None:
        """Raise InvalidUpdateError, or warn and say what is done `instead`: see `Strictness`."""
        self.strictness.check(place, lambda: InvalidUpdateError(message()), instead, culprit)


def branch_route(
    router: Router,
    source: str,
    ends: Mapping[Hashable, str] | None,
    culprit: object = None,
) -> Callable[[Any], list[Write]]:
    """What a conditional edge does with its function's answer."""

    return _BranchReader(router, source, ends, culprit).writes_of


@record
class _BranchReader:
    """Turns the answers of one conditional edge into writes. The arguments are `branch_route`'s."""

    router: Router
    source: str
    ends: Mapping[Hashable, str] | None
    culprit: object
    ready: dict[str, list[Write]] = dataclasses.field(default_factory=dict)
    """Name → its writes. A name is what most branches return: what it leads to is found once, not
    in every step; and when it is first returned, since every branch may know every node."""

    def writes_of(self, answer: Any) -> list[Write]:
        """The writes of what the function has answered."""
        if type(answer) is not str:
            return self.routed(answer)
        writes = self.ready.get(answer)
        if writes is None:
            writes = self.ready[answer] = self.routed(answer)
        return writes

    def routed(self, answer: Any) -> list[Write]:
        """The same, found anew."""
        subject = f"The conditional edge of '{self.source}'"
        answers = answer if isinstance(answer, (list, tuple)) else [answer]
        writes = []
        for one in answers:
            target = one if isinstance(one, Send) else self.destination(one, subject)
            if isinstance(target, Send) and target.node == END:
                raise InvalidUpdateError(f"{subject} sent to END: return END itself.")
            write = self.router.target(target, subject, self.culprit)
            if write is not None:
                writes.append(write)
        return writes

    def destination(self, answer: Any, subject: str) -> Any:
        """Where an answer leads that is no Send."""
        is_theirs = type(answer).__name__ in _OF_BOTH and advice(answer)
        if self.ends is None or is_theirs:
            found = answer
        elif isinstance(answer, Hashable) and answer in self.ends:
            found = self.ends[answer]
        else:
            known = ", ".join(map(repr, self.ends))
            raise KeyError(
                f"{subject} returned {answer!r}; its path map or return type has {known}."
            )
        if found is None or found == START:
            raise ValueError(
                f"{subject} returned {answer!r}, which is no destination: return a node's name, a "
                "list of names, a Send, or END."
            )
        return found


def update_writer(
    router: Router,
    node: str,
    keys: Mapping[str, None],
    managed: Collection[str],
    *,
    lenient: bool = False,
    culprit: object = None,
) -> Callable[[Any], list[Write]]:
    """What becomes of a node's return value; for INPUT, of the update of a Command as input.

    With `lenient`, keys that the state does not have are dropped without a report: a graph and the
    graph that is its node exchange the keys that both have. The same holds for an input that comes
    from inside a node. `culprit` is the node's function.
    """
    reader = _ResultReader(router, node, keys, managed, lenient, culprit)
    writer = reader.from_pairs if node == INPUT else reader.writes_of
    if router.delta:
        from milepost._engine.superstep.message_ids import with_message_ids

        return with_message_ids(writer, router.delta)
    return writer


def taking_aliases(
    writer: Callable[[Any], list[Write]], aliases: Aliases, keys: Collection[str]
) -> Callable[[Any], list[Write]]:
    """An `update_writer` for START that takes fields by their aliases too."""
    return partial(_writes_by_name, writer, aliases, keys) if aliases else writer


def _writes_by_name(
    writer: Callable[[Any], list[Write]], aliases: Aliases, keys: Collection[str], given: Any
) -> list[Write]:
    return writer(by_name(given, aliases, keys) if isinstance(given, Mapping) else given)


@record(frozen=False)
class _ResultReader:
    """Turns the results of one node into writes. The arguments are those of `update_writer`."""

    router: Router
    node: str
    keys: Mapping[str, None]
    managed: Collection[str]
    lenient: bool
    culprit: object
    names: Mapping[str, None] | None = dataclasses.field(init=False)
    """The keys; None if the state is one value."""
    who: str = dataclasses.field(init=False)
    """The subject of errors."""

    def __post_init__(self) -> None:
        self.names = None if is_one_value(self.keys) else self.keys
        inputs = {INPUT: "The command that is the input", START: "The input"}
        self.who = inputs.get(self.node, f"Node '{self.node}'")

    def writes_of(self, output: Any) -> list[Write]:
        """The writes of what the node has returned."""
        if output is None:
            return []
        if type(output) is dict and (names := self.names) is not None:
            for key in output:
                if type(key) is not str or key not in names:
                    return self.from_mapping(output)
            return list(output.items())
        if isinstance(output, Command):
            return self.from_command(output)
        if isinstance(output, Send):
            is_known = self.router.target(output, self.who, self.culprit)
            return [(TASKS, output)] if is_known else []
        if isinstance(output, (list, tuple)) and any(isinstance(o, Command) for o in output):
            if up := [o for o in output if isinstance(o, Command) and o.graph == Command.PARENT]:
                raise ParentCommand(*up)
            return [write for one in output for write in self.writes_of(one)]
        writes = self.from_value(output)
        if writes is not None:
            return writes
        if callable(getattr(output, "invoke", None)):
            raise ReturnedRunnable(output)
        if self.node == START:
            # Of a Command that begins a thread. Else it is more likely a list of messages.
            if _is_pairs(output) and any(key in self.keys for key, _ in output):
                return self.from_pairs(output)
            raise InvalidUpdateError(
                f"The input of graph '{self.router.graph}' is {output!r}: expected dict of state "
                "keys."
            )
        raise InvalidUpdateError(
            f"{self.who} returned {output!r}: expected dict of state keys, a Command, or None."
        )

    def from_value(self, output: Any) -> list[Write] | None:
        """The writes of a mapping or of an object with fields; None for anything else."""
        keys = self.keys
        if isinstance(output, Mapping):
            return self.from_mapping(output)
        if type(output).__name__ in _OF_BOTH and (hint := advice(output)):
            raise InvalidUpdateError(f"{self.who}: {output!r} is no update.{hint}")
        if callable(getattr(output, "invoke", None)) and not isinstance(output, type):
            return None
        if self.names is None:
            return [(ROOT, output)]
        if dataclasses.is_dataclass(output) and not isinstance(output, type):
            fields_of = {field.name: field for field in dataclasses.fields(output)}
            self._report(fields_of)
            # Of an input, what the class has derived is not given by the caller.
            derived = {n for n, f in fields_of.items() if self.node == START and not f.init}
            return [
                (k, getattr(output, k)) for k in keys if k not in derived and hasattr(output, k)
            ]
        if is_pydantic(type(output)):
            self._report(output.model_fields_set)
            return _fields_that_count(output, keys)
        if not isinstance(output, type) and (fields := annotated_keys(type(output))):
            self._report(fields)
            return [(k, getattr(output, k)) for k in keys if k in fields and hasattr(output, k)]
        return None

    def from_mapping(self, output: Mapping[str, Any]) -> list[Write]:
        """The writes of a mapping from keys to values."""
        if self.names is None:
            return [(ROOT, output)]
        writes = [(plain(key), value) for key, value in output.items() if key in self.keys]
        if len(writes) < len(output):
            self._report(output)
        return writes

    def from_command(self, command: Command[Any]) -> list[Write]:
        """The writes of a Command: its update, and where it goes."""
        if command.graph == Command.PARENT:
            raise ParentCommand(command)
        if command.graph is not None:
            self.router.refuse(
                ("graph", self.node, command.graph),
                lambda: (
                    f"{self.who} returned a Command for graph '{command.graph}'; only None (this "
                    "graph) and Command.PARENT can be addressed."
                ),
                "It is taken for this graph.",
                self.culprit,
            )
        writes: list[Write] = []
        if command.update is not None:
            writes.extend(self.from_pairs(command.update))
        for target in command.targets():
            write = self.router.target(target, self.who, self.culprit)
            if write is not None:
                writes.append(write)
        return writes

    def from_pairs(self, update: Any) -> list[Write]:
        """The writes of a Command's update."""
        if self.names is not None and _is_pairs(update):
            return [write for key, value in update for write in self.from_mapping({key: value})]
        writes = self.from_value(update)
        if writes is not None:
            return writes
        self.router.refuse(
            ("update", self.node, type(update)),
            lambda: (
                f"{self.who} has the update {update!r}: expected dict of state keys, or pairs of "
                "keys and values."
            ),
            "It is dropped.",
            self.culprit,
        )
        return []

    def _report(self, written: Iterable[Any]) -> None:
        """Refuse keys that the state does not have, or warn of each that it is dropped."""
        if self.lenient or (self.node == START and find_context() is not None):
            return
        for key in written:
            if key not in self.keys and key not in self.managed:
                message = partial(self._unknown_key, key)
                place = ("key", self.node, key)
                self.router.refuse(place, message, "It is dropped.", self.culprit)

    def _unknown_key(self, key: object) -> str:
        names = ", ".join(sorted(self.keys))
        graph = self.router.graph
        if self.node == START:
            return (
                f"The input has the key {key!r}, which is not in the input schema. "
                f"The input of graph '{graph}' has: {names}."
            )
        return (
            f"{self.who} wrote the key {key!r}, which is not in the state. "
            f"The state of graph '{graph}' has: {names}."
        )


def _is_pairs(update: Any) -> bool:
    """Whether an update has the form `[(key, value), ...]`."""
    return isinstance(update, (list, tuple)) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in update
    )


def _fields_that_count(model: Any, keys: Collection[str]) -> list[Write]:
    """Fields that were set, and those whose value is not merely an empty default."""
    fields = type(model).model_fields
    writes = []
    for key in keys:
        if key not in fields and not hasattr(model, key):
            continue
        value = getattr(model, key)
        default = fields[key].default if key in fields else None
        if value is not None or default is not None or key in model.model_fields_set:
            writes.append((key, value))
    return writes
