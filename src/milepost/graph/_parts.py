"""The forms in which events and results reach a caller: `version="v1"` and `version="v2"`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost._engine.streaming.events import Event
from milepost._schema import schema_of
from milepost.constants import INTERRUPT, START

if TYPE_CHECKING:
    from milepost._stream_parts import GraphOutput
    from milepost.graph._typing import AnyGraph
    from milepost.types import StreamMode

Build: TypeAlias = Callable[[dict[str, Any]], Any]
"""Makes a schema's own type out of a dict of values."""


_V1: dict[tuple[bool, bool], Callable[[Event], Any]] = {
    (False, False): attrgetter("payload"),
    (True, False): attrgetter("mode", "payload"),
    (False, True): attrgetter("ns", "payload"),
    (True, True): attrgetter("ns", "mode", "payload"),
}
"""What a caller sees of an event, by whether there are several modes, and several graphs."""


def form_of(
    graph: AnyGraph,
    modes: StreamMode | Sequence[StreamMode] | None,
    subgraphs: bool,
    version: str | None,
) -> Callable[[Event], Any]:
    """How the events of a run are shown to its caller."""
    if version in (None, "v1"):
        wanted = graph.stream_mode if modes is None else modes
        return _V1[not isinstance(wanted, str), subgraphs]
    output = state = None
    if graph.builder is not None:
        output = schema_of(graph.builder.output_schema).build
        state = schema_of(graph.builder.state_schema).build
    return lambda event: _part(event, output, state)


def _part(event: Event, output: Build | None, state: Build | None) -> dict[str, Any]:
    """An event as a part of a stream, with its mode, its graph and its data."""
    data = event.payload
    part: dict[str, Any] = {"type": event.mode, "ns": event.ns, "data": data}
    if event.mode == "values":
        part["interrupts"] = ()
        if isinstance(data, dict):
            part["interrupts"] = tuple(data.get(INTERRUPT, ()))
            data = {key: value for key, value in data.items() if key != INTERRUPT}
            part["data"] = data if output is None or event.ns else output(data)
    elif state is not None and not event.ns and event.mode in ("checkpoints", "debug"):
        part["data"] = _with_state(data, state)
    return part


def _with_state(payload: Mapping[str, Any], state: Build) -> Mapping[str, Any]:
    """The payload of a checkpoint with its values as the schema of the state."""
    if payload.get("type") == "checkpoint" and isinstance(payload.get("payload"), dict):
        return {**payload, "payload": _with_state(payload["payload"], state)}
    # At the beginning not every key has a value that the schema may need.
    if isinstance(payload.get("values"), dict) and START not in payload.get("next", ()):
        return {**payload, "values": state(payload["values"])}
    return payload


def output_of(parts: Iterable[Mapping[str, Any]]) -> GraphOutput[Any]:
    """What `invoke` returns, from the parts of the `values` stream."""
    from milepost._stream_parts import GraphOutput

    value: Any = None
    interrupts: list[Any] = []
    for part in parts:
        value = part["data"]
        interrupts.extend(part["interrupts"])
    return GraphOutput(value, tuple(interrupts))
