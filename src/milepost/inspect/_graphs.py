"""Graphs of a program, loaded by name, to run threads or to be checked against them."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import iscoroutine, signature
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from milepost.inspect._errors import InspectError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import ModuleType
    from typing import TypeAlias

    from milepost.inspect._database import Database

    Wait: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]

CONFIG: Final = "langgraph.json"


class GraphNotFoundError(InspectError, LookupError):
    """A text that names no graph, or one that cannot be loaded."""


def _waited(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine; the caller may be on an event loop itself."""
    from milepost._internal.threads import LoopThread

    loop = LoopThread()
    try:
        return loop.run(work)
    finally:
        loop.close()


def load_graph(spec: str) -> Any:
    """The graph that a text means. The program is imported.

    Args:
        spec: `module:attribute`, `file.py:attribute`, or `langgraph.json`; of a file that names
            several graphs, `langgraph.json:NAME` chooses one. A builder is compiled, a function
            that makes a graph is called, and awaited on a loop of its own if it is async.

    Raises:
        GraphNotFoundError: There is none.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("trips_of_today.py").write_text('''
        ... from milepost.graph import START, StateGraph
        ... builder = StateGraph(dict).add_node("work", lambda state: state).add_edge(START, "work")
        ... ''')
        >>> sorted(inspect.load_graph("trips_of_today.py:builder").nodes)
        ['__start__', 'work']
    """
    return _find(spec, _waited)


def load_graphs(
    spec: str,
    *,
    wait: Wait = _waited,
    skip: Callable[[str, GraphNotFoundError], object] | None = None,
) -> dict[str, Any]:
    """The graphs that a text names, by their names. The programs are imported.

    A graph has its own name, or else that of the attribute.

    Args:
        spec: As for `load_graph`; of a `langgraph.json` all graphs are loaded.
        wait: Awaits what an async function returns, for graphs that are to run on the same loop.
        skip: Called with the name of a graph of a `langgraph.json` that cannot be loaded, and with
            the error, which is raised otherwise.

    Raises:
        GraphNotFoundError: There is none.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("trips_of_tomorrow.py").write_text('''
        ... from milepost.graph import START, StateGraph
        ... builder = StateGraph(dict).add_node("work", lambda state: state).add_edge(START, "work")
        ... ''')
        >>> list(inspect.load_graphs("trips_of_tomorrow.py:builder"))
        ['builder']
    """
    if spec.endswith(".json"):
        config = _Config(Path(spec))
        found = {}
        for name in config.graphs:
            try:
                found[name] = config.load(name, wait)
            except GraphNotFoundError as error:
                if skip is None:
                    raise
                skip(name, error)
        return found
    graph = _find(spec, wait)
    place, _, attribute = spec.rpartition(":")
    name = str(getattr(graph, "name", "") or "LangGraph")
    is_named = name != "LangGraph" and not place.endswith(".json")
    return {name if is_named else attribute: graph}


def _find(spec: str, wait: Wait) -> Any:
    place, _, name = spec.rpartition(":")
    if spec.endswith(".json"):
        place, name = spec, ""
    if place.endswith(".json"):
        return _Config(Path(place)).load(name, wait)
    if not place or not name:
        raise GraphNotFoundError(
            f"'{spec}' names no graph: write module:attribute, file.py:attribute or {CONFIG}."
        )
    return _load(spec, Path.cwd(), wait)


class _Config:
    """A `langgraph.json`, read."""

    def __init__(self, file: Path) -> None:
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise GraphNotFoundError(f"'{file}' cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise GraphNotFoundError(f"'{file}' is no JSON: {error}.") from error
        graphs = config.get("graphs") if isinstance(config, dict) else None
        if not isinstance(graphs, dict) or not graphs:
            raise GraphNotFoundError(f"'{file}' names no graphs: it has no \"graphs\".")
        self.graphs: dict[str, Any] = graphs
        self._file = file
        self._env = config.get("env")

    def load(self, name: str, wait: Wait) -> Any:
        """A graph, or without a name the only one; what its program is to find in the environment
        is there before."""
        if not name and len(self.graphs) > 1:
            raise GraphNotFoundError(
                f"'{self._file}' names several graphs: write {self._file}:NAME, with one of "
                f"{', '.join(self.graphs)}."
            )
        name = name or next(iter(self.graphs))
        if name not in self.graphs:
            raise GraphNotFoundError(
                f"'{self._file}' has no graph '{name}', but {', '.join(self.graphs)}."
            )
        entry = self.graphs[name]
        path = entry.get("path") if isinstance(entry, dict) else entry
        if not isinstance(path, str):
            raise GraphNotFoundError(f"'{self._file}': graph '{name}' has no path.")
        folder = self._file.resolve().parent
        _read_environment(folder, self._env)
        return _load(path, folder, wait)


def _read_environment(folder: Path, env: Any) -> None:
    """Set the variables in `env`, or in the file that it names. Variables that are set stay."""
    pairs: dict[str, Any] = env if isinstance(env, dict) else {}
    if isinstance(env, str) and (folder / env).is_file():
        for line in (folder / env).read_text(encoding="utf-8").splitlines():
            key, equals, value = line.strip().removeprefix("export ").partition("=")
            if equals and not key.startswith("#"):
                pairs[key.strip()] = value.strip().strip("\"'")
    for key, value in pairs.items():
        os.environ.setdefault(str(key), str(value))


def _load(spec: str, folder: Path, wait: Wait) -> Any:
    place, _, attribute = spec.rpartition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        is_file = place.endswith(".py")
        module = _file_module((folder / place).resolve()) if is_file else import_module(place)
        return _compiled(attrgetter(attribute)(module), spec, wait)
    except GraphNotFoundError:
        raise
    except Exception as error:  # whatever the program does when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise GraphNotFoundError(f"'{spec}' cannot be loaded. {reason}") from error


def _file_module(file: Path) -> ModuleType:
    known = sys.modules.get(file.stem)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    spec = spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ImportError(f"there is no Python file '{file}'")
    module = module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[file.stem]
        raise
    return module


def _compiled(found: Any, spec: str, wait: Wait) -> Any:
    if hasattr(found, "get_state_history") and hasattr(found, "astream"):
        return found
    if hasattr(found, "compile") and hasattr(found, "add_node"):
        return found.compile()
    if isinstance(found, (AbstractContextManager, AbstractAsyncContextManager)):
        raise GraphNotFoundError(
            f"'{spec}' makes a context manager, which nothing would close after the graph has run: "
            "name a function that returns the graph."
        )
    if callable(found) and not isinstance(found, type):
        made = found({}) if signature(found).parameters else found()
        if iscoroutine(made):
            made = wait(made)
        if made is not found:
            return _compiled(made, spec, wait)
    raise GraphNotFoundError(f"'{spec}' is a {type(found).__name__}, and no graph.")


def records_of(graph: Any) -> str:
    """The module with the records, such as Command, of the library that a graph is of.

    Args:
        graph: The compiled graph.

    Examples:
        >>> from milepost.inspect.parts import records_of
        >>> records_of(graph)
        'milepost.types'
    """
    return "langgraph.types" if is_langgraph(graph) else "milepost.types"


def is_langgraph(graph: Any) -> bool:
    """Whether a graph is LangGraph's own.

    Args:
        graph: The compiled graph.

    Examples:
        >>> from milepost.inspect.parts import is_langgraph
        >>> is_langgraph(graph)
        False
    """
    return type(graph).__module__.startswith("langgraph.")


def refusing(graph: Any) -> dict[str, Any]:
    """Options that let a graph refuse a thread that another run has; LangGraph has none.

    Args:
        graph: The compiled graph.

    Examples:
        >>> from milepost.inspect.parts import refusing
        >>> refusing(graph)
        {'on_conflict': 'reject'}
    """
    return {} if is_langgraph(graph) else {"on_conflict": "reject"}


def attached(graph: Any, db: Database) -> Any:
    """The graph with the threads and the store of a database, whatever it was compiled with.

    Args:
        graph: The compiled graph.
        db: The database.

    Examples:
        >>> bare = builder.compile()
        >>> inspect.attached(bare, db).get_state({"configurable": {"thread_id": "trip"}}).values
        {'n': 2, 'city': 'Paris'}
    """
    saver: Any = db.saver
    store = db.store
    if is_langgraph(graph):
        from milepost.integrations.langgraph import as_langgraph, as_langgraph_store

        saver = as_langgraph(saver)
        store = None if store is None else as_langgraph_store(store)
    return graph.copy({"checkpointer": saver} | ({} if store is None else {"store": store}))
