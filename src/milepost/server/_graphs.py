"""Graphs of the user's program, described as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

from milepost._internal import log
from milepost.server._errors import not_found
from milepost.server._records import Schemas


def drawing(graph: Any, xray: bool | int = False) -> dict[str, Any]:
    """Nodes and edges."""
    shown: dict[str, Any] = graph.get_graph(xray=xray).to_json()
    keys = ("source", "target", "data", "conditional")
    edges = [{key: edge[key] for key in keys if key in edge} for edge in shown["edges"]]
    return {"nodes": shown["nodes"], "edges": edges}


def schemas(graph: Any) -> Schemas:
    """The JSON schemas of a graph's input, output, state, config and context."""
    builder = getattr(graph, "builder", None)
    return Schemas(
        input_schema=_schema(graph.get_input_jsonschema, getattr(builder, "input_schema", None)),
        output_schema=_schema(graph.get_output_jsonschema, getattr(builder, "output_schema", None)),
        state_schema=_schema(
            lambda: _state_schema(builder), getattr(builder, "state_schema", None)
        ),
        config_schema=_schema(lambda: _configurable(graph), None),
        context_schema=_schema(
            graph.get_context_jsonschema, getattr(graph, "context_schema", None)
        ),
    )


def subgraphs(graph: Any, namespace: str | None, recurse: bool) -> dict[str, Schemas]:
    """The graphs inside of a graph, by the names of their nodes."""
    found = {
        name: schemas(inner)
        for name, inner in graph.get_subgraphs(namespace=namespace, recurse=recurse)
    }
    if namespace is not None and not found:
        raise not_found(f"There is no graph inside of a node '{namespace}'.")
    return found


def _schema(make: Callable[[], Any], hinted: Any) -> dict[str, Any] | None:
    """A schema; of a type that pydantic refuses, the schemas of its keys."""
    try:
        made: dict[str, Any] | None = make()
    except Exception as error:  # of any class: pydantic runs code of the program
        _warn(hinted, error)
        return _by_keys(hinted)
    return made


_warned: Final[set[str]] = set()


def _warn(hinted: Any, error: Exception) -> None:
    """Log once for each type that it has no schema.

    What such as `Annotated` and `Literal` are made of is left out: they may hold values.
    """
    if str(hinted) in _warned:
        return
    _warned.add(str(hinted))
    kind = getattr(hinted, "__origin__", hinted)
    name = getattr(hinted, "__name__", type(hinted).__name__)
    if isinstance(kind, type):
        name = f"{kind.__module__}.{kind.__qualname__}"
    without = "There is no JSON schema of %s as a whole (%s): clients are told its keys."
    log.warning(log.SERVER, without, name, error)


def _by_keys(hinted: Any) -> dict[str, Any] | None:
    try:
        hints: Mapping[str, Any] = get_type_hints(hinted)
    except Exception:
        return None
    properties: dict[str, Any] = {}
    for name, hint in hints.items():
        try:
            from pydantic import TypeAdapter

            properties[name] = {"title": name, **TypeAdapter(hint).json_schema()}
        except Exception:
            properties[name] = {"title": name}
    return {"title": hinted.__name__, "type": "object", "properties": properties}


def _state_schema(builder: Any) -> Any:
    if builder is None:
        return None
    from milepost.graph._schemas import type_schema

    return type_schema(builder.state_schema)


def _configurable(graph: Any) -> Any:
    context = graph.get_context_jsonschema()
    return None if context is None else {"type": "object", "properties": {"configurable": context}}
