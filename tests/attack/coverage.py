"""The list of what can be attacked is the code's own: the public methods of its classes."""

from __future__ import annotations

from typing import Any

from attack.workloads import WORKLOADS
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.postgres import PostgresSaver
from milepost.checkpoint.postgres.aio import AsyncPostgresSaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.checkpoint.sqlite.aio import AsyncSqliteSaver
from milepost.graph.state import CompiledStateGraph
from milepost.store.memory import InMemoryStore
from milepost.store.postgres import PostgresStore
from milepost.store.postgres.aio import AsyncPostgresStore
from milepost.store.sqlite import SqliteStore
from milepost.store.sqlite.aio import AsyncSqliteStore

OBJECTS: dict[str, tuple[type, ...]] = {
    "saver": (InMemorySaver, SqliteSaver, AsyncSqliteSaver, PostgresSaver, AsyncPostgresSaver),
    "store": (InMemoryStore, SqliteStore, AsyncSqliteStore, PostgresStore, AsyncPostgresStore),
    "graph": (CompiledStateGraph,),
}

NOT_ATTACKED = {
    "saver.get_next_version": "makes a name; nothing is stored or read",
    "saver.weight": "how much memory a prepared step takes; nothing is stored or read",
    "saver.renew": "called in a forked process; `forking.py` makes some of each worker",
    "store.renew": "called in a forked process",
    "store.from_conn_string": "every worker opens its stores with it",
    "store.close": "every worker closes its stores",
    "store.use": "gives a new object its engine; `from_conn_string` does it",
    "store.reconnect_with": "says how a lost connection is replaced; `from_conn_string` does it",
    "graph.clear_cache": "of the node cache, which keeps no thread",
    "graph.copy": "of the object in memory",
    "graph.get_graph": "draws",
    "graph.get_name": "of the object in memory",
    "graph.get_subgraphs": "walks through objects in memory",
    "graph.with_config": "of the object in memory",
    "graph.stream_events": "shapes what `stream` gives",
    "saver.with_allowlist": "allows types to be read; nothing is stored or read",
    **{
        f"graph.{name}": "of the object in memory"
        for name in ("attach_branch", "attach_edge", "attach_node", "get_prompts", "validate")
    },
    **{
        f"graph.{name}": "describes the graph's types"
        for name in (
            *("config_schema", "get_config_jsonschema", "get_context_jsonschema"),
            *("get_input_jsonschema", "get_input_schema"),
            *("get_output_jsonschema", "get_output_schema"),
        )
    },
    **{
        f"graph.{name}": "LangChain's own code, which calls `invoke`, `stream` or `batch`"
        for name in (
            *("as_tool", "assign", "astream_log", "batch_as_completed", "bind", "map", "pick"),
            *("pipe", "transform", "with_alisteners", "with_fallbacks", "with_listeners"),
            *("with_retry", "with_types"),
        )
    },
}
"""Methods that no operation covers → why."""


def public_methods(kind: type) -> set[str]:
    """Names of methods; of a pair only the sync one, because an operation runs in both colours."""
    names = {name for name in dir(kind) if not name.startswith("_") and _is_method(kind, name)}
    return {name for name in names if not (name.startswith("a") and name[1:] in names)}


def _is_method(kind: type, name: str) -> bool:
    found: Any = getattr(kind, name)
    return callable(found) and not isinstance(found, type)


def covered() -> set[str]:
    """All that the operations of all workloads cover."""
    return {
        name
        for workload in WORKLOADS.values()
        for operation in workload.operations
        for name in operation.covers
    }
