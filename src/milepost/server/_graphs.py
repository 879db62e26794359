"""Graphs of the user's program: found by name, attached to a database, described as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from milepost.errors import GraphBuildError
from milepost.server._errors import not_found
from milepost.server._records import Schemas
from milepost.types import Command

if TYPE_CHECKING:
    from types import ModuleType

    from milepost.checkpoint.base import BaseCheckpointSaver
    from milepost.store.base import BaseStore


def load_graphs(spec: str) -> dict[str, Any]:
    """The graphs that `module:attribute`, `file.py:attribute` or a `langgraph.json` names."""
    if spec.endswith(".json"):
        return _from_config(Path(spec))
    graph = _load(spec, Path.cwd())
    return {_name_of(spec, graph): graph}


def _from_config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise GraphBuildError(f"'{file}' cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise GraphBuildError(f"'{file}' is no JSON: {error}.") from error
    named = config.get("graphs") if isinstance(config, dict) else None
    if not isinstance(named, dict) or not named:
        raise GraphBuildError(f'\'{file}\' names no graphs: add "graphs": {{"agent": …}}.')
    found = {}
    for graph_id, entry in named.items():
        path = entry.get("path") if isinstance(entry, dict) else entry
        if not isinstance(path, str):
            raise GraphBuildError(f"'{file}': graph '{graph_id}' has no path.")
        found[graph_id] = _load(path, file.resolve().parent)
    return found


def _load(spec: str, folder: Path) -> Any:
    place, _, attribute = spec.rpartition(":")
    if not place:
        raise GraphBuildError(f"'{spec}' names no graph: write module:attribute or file.py:graph.")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = _file_module(folder / place) if place.endswith(".py") else import_module(place)
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, OSError) as error:
        raise GraphBuildError(f"'{spec}' cannot be loaded: {error}.") from error
    return compiled(found, spec)


def _file_module(file: Path) -> ModuleType:
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    known = sys.modules.get(file.stem)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    module = module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def compiled(found: Any, spec: str) -> Any:
    """A graph as it is, compiled if it is a builder, made if it is a function that makes one."""
    if _is_graph(found):
        return found
    if hasattr(found, "compile") and hasattr(found, "add_node"):
        return found.compile()
    if callable(found):
        made = found({}) if signature(found).parameters else found()
        if made is not found and not callable(getattr(made, "__await__", None)):
            return compiled(made, spec)
    raise GraphBuildError(f"'{spec}' is a {type(found).__name__}, not a graph.")


def _is_graph(found: Any) -> bool:
    return hasattr(found, "get_state_history") and hasattr(found, "astream")


def _name_of(spec: str, graph: Any) -> str:
    name = getattr(graph, "name", None)
    return name if name and name != "LangGraph" else spec.rpartition(":")[2]


def attached(graph: Any, saver: BaseCheckpointSaver[Any], store: BaseStore | None) -> Any:
    """The graph with the threads and the store of a database, whatever it was compiled with."""
    if not _is_langgraph(graph):
        changes: dict[str, Any] = {"checkpointer": saver}
        if store is not None:
            changes["store"] = store
        return graph.copy(changes)
    from milepost.integrations.langgraph import as_langgraph, as_langgraph_store

    changes = {"checkpointer": as_langgraph(saver)}
    if store is not None:
        changes["store"] = as_langgraph_store(store)
    return graph.copy(changes)


def answer(graph: Any, resume: Any) -> Any:
    """The Command that answers what a thread waits for, of the library that the graph is of."""
    if _is_langgraph(graph):
        return import_module("langgraph.types").Command(resume=resume)
    return Command(resume=resume)


def _is_langgraph(graph: Any) -> bool:
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
