"""From what nodes and branches return to what is written: updates, edges, commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost._internal.dataclass_tools import record
from milepost._schema import is_pydantic
from milepost.constants import BRANCH_TO, END, INPUT, JOIN, ROOT, START, TASKS
from milepost.errors import InvalidUpdateError, ParentCommand
from milepost.types import Command, Send

if TYPE_CHECKING:
    from milepost._engine.superstep.program import Write


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

    def target(self, target: Any, said_by: str) -> Write | None:
        """The write that makes a target run; None for END."""
        if isinstance(target, Send):
            if target.node == END or target.node not in self.nodes:
                raise InvalidUpdateError(self._unknown(target.node, f"{said_by} sent to"))
            return (TASKS, target)
        if target == END:
            return None
        if target == START or not isinstance(target, str) or target not in self.nodes:
            raise InvalidUpdateError(self._unknown(target, f"{said_by} goes to"))
        return (edge_channel(target), None)

    def goto(self, target: Any) -> Write:
        """The write for a target of a Command from outside."""
        write = self.target(target, "The command")
        if write is None:
            raise InvalidUpdateError("A command that starts a run cannot go to END.")
        return write

    def _unknown(self, target: object, said_by: str) -> str:
        return (
            f"{said_by} {target!r}, which is not a node of graph '{self.graph}'. "
            f"Its nodes are: {', '.join(sorted(self.nodes))}."
        )


def branch_route(
    router: Router, source: str, ends: Mapping[Hashable, str] | None
) -> Callable[[Any], list[Write]]:
    """What a conditional edge does with its function's answer."""

    # A name is what most branches return. What it leads to is found once, not in every step; and
    # when it is first returned, since every branch may know every node.
    ready: dict[str, list[Write]] = {}

    def route(answer: Any) -> list[Write]:
        if type(answer) is not str:
            return routed(answer)
        writes = ready.get(answer)
        if writes is None:
            writes = ready[answer] = routed(answer)
        return writes

    def routed(answer: Any) -> list[Write]:
        answers = answer if isinstance(answer, (list, tuple)) else [answer]
        writes = []
        for one in answers:
            target = one
            if ends is not None and not isinstance(one, Send):
                if not isinstance(one, Hashable) or one not in ends:
                    known = ", ".join(map(repr, ends))
                    raise KeyError(
                        f"The conditional edge of '{source}' returned {one!r}; its path map or "
                        f"return type has {known}."
                    )
                target = ends[one]
            if target is None or target == START:
                raise ValueError(
                    f"The conditional edge of '{source}' returned {one!r}, which is no "
                    "destination: return a node's name, a list of names, a Send, or END."
                )
            write = router.target(target, f"The conditional edge of '{source}'")
            if write is not None:
                writes.append(write)
        return writes

    return route


def update_writer(
    router: Router, node: str, keys: Collection[str], managed: Collection[str], *, lenient: bool
) -> Callable[[Any], list[Write]]:
    """What becomes of a node's return value; for INPUT, of the update of a Command as input.

    `lenient` drops keys that the state does not have: an inner graph's output may hold more than
    the outer one knows.
    """
    # Keys come in the schema's order; looking one up must not cost more in a wide state.
    known = keys if isinstance(keys, Mapping) else dict.fromkeys(keys)
    is_root = ROOT in known
    who = "The command that is the input" if node == INPUT else f"Node '{node}'"

    def writes_of(output: Any) -> list[Write]:
        if output is None:
            return []
        if type(output) is dict:
            all_known = not is_root and output.keys() <= known.keys()
            return list(output.items()) if all_known else from_mapping(output)
        if isinstance(output, Command):
            return from_command(output)
        if isinstance(output, Send):
            return [(TASKS, output)] if router.target(output, who) else []
        if isinstance(output, (list, tuple)) and any(isinstance(o, Command) for o in output):
            return [write for one in output for write in writes_of(one)]
        return from_update(output)

    def from_update(output: Any) -> list[Write]:
        if is_root:
            return [(ROOT, output)]
        if isinstance(output, Mapping):
            return from_mapping(output)
        if dataclasses.is_dataclass(output) and not isinstance(output, type):
            return [(k, getattr(output, k)) for k in keys if hasattr(output, k)]
        if is_pydantic(type(output)):
            return _fields_that_count(output, keys)
        if node == START:
            # Of a Command that begins a thread. Else it is more likely a list of messages.
            if _is_pairs(output) and any(key in known for key, _ in output):
                return from_pairs(output)
            raise InvalidUpdateError(
                f"The input of graph '{router.graph}' is {output!r}: expected dict of state keys."
            )
        if node == INPUT:
            raise InvalidUpdateError(
                f"{who} has the update {output!r}: expected dict of state keys, or pairs of keys "
                "and values."
            )
        raise InvalidUpdateError(
            f"{who} returned {output!r}: expected dict of state keys, a Command, or None."
        )

    def from_mapping(output: Mapping[str, Any]) -> list[Write]:
        if is_root:
            return [(ROOT, output)]
        writes = []
        for key, value in output.items():
            if key in known:
                writes.append((key, value))
            elif not lenient and key not in managed:
                raise InvalidUpdateError(
                    f"{who} wrote the key {key!r}, which is not in the state. "
                    f"The state of graph '{router.graph}' has: {', '.join(sorted(keys))}."
                )
        return writes

    def from_command(command: Command[Any]) -> list[Write]:
        if command.graph == Command.PARENT:
            raise ParentCommand(command)
        if command.graph is not None:
            raise InvalidUpdateError(
                f"{who} returned a Command for graph '{command.graph}'; only None (this "
                "graph) and Command.PARENT can be addressed."
            )
        writes: list[Write] = []
        if command.update is not None:
            writes.extend(from_pairs(command.update))
        for target in command.targets():
            write = router.target(target, who)
            if write is not None:
                writes.append(write)
        return writes

    def from_pairs(update: Any) -> list[Write]:
        if not is_root and _is_pairs(update):
            return [write for key, value in update for write in from_mapping({key: value})]
        return from_update(update)

    return from_pairs if node == INPUT else writes_of


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
