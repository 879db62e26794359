"""Graphs of the user's program: found by name, described as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

from milepost.inspect import load_graph
from milepost.server._errors import not_found
from milepost.server._records import Schemas
from milepost.types import Command


def load_graphs(spec: str) -> dict[str, Any]:
    """The graphs that `module:attribute`, `file.py:attribute` or a `langgraph.json` names."""
    if spec.endswith(".json"):
        return {name: load_graph(f"{spec}:{name}") for name in _names_in(spec)}
    graph = load_graph(spec)
    place, _, attribute = spec.rpartition(":")
    name = str(getattr(graph, "name", "") or "LangGraph")
    is_named = name != "LangGraph" and not place.endswith(".json")
    return {name if is_named else attribute: graph}


def _names_in(file: str) -> list[str]:
    try:
        return list(json.loads(Path(file).read_text(encoding="utf-8"))["graphs"])
    except (OSError, ValueError, LookupError, TypeError):
        load_graph(file)  # says what is wrong with it
        raise


def answer(graph: Any, resume: Any) -> Any:
    """The Command that answers what a thread waits for, of the library that the graph is of."""
    if is_langgraph(graph):
        return import_module("langgraph.types").Command(resume=resume)
    return Command(resume=resume)


def refusing(graph: Any) -> dict[str, Any]:
    """Options that let a graph refuse a thread that another run has; LangGraph has none."""
    return {} if is_langgraph(graph) else {"on_conflict": "reject"}


def is_langgraph(graph: Any) -> bool:
    """Whether a graph is LangGraph's own."""
    return type(graph).__module__.startswith("langgraph.")


def drawing(graph: Any, xray: bool | int = False) -> dict[str, Any]:
    """Nodes and edges."""
    shown: dict[str, Any] = graph.get_graph(xray=xray).to_json()
    keys = ("source", "target", "data", "conditional")
    edges = [{key: edge[key] for key in keys if key in edge} for edge in shown["edges"]]
    return {"nodes": shown["nodes"], "edges": edges}


def schemas(graph: Any) -> Schemas:
    """What a graph takes and gives, as far as JSON schemas can say it."""
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
    """A schema, or of a type that pydantic refuses as a whole what can be said key by key."""
    try:
        made: dict[str, Any] | None = make()
    except Exception:
        return _by_keys(hinted)
    return made


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
    from pydantic import TypeAdapter

    return TypeAdapter(builder.state_schema).json_schema()


def _configurable(graph: Any) -> Any:
    context = graph.get_context_jsonschema()
    return None if context is None else {"type": "object", "properties": {"configurable": context}}
