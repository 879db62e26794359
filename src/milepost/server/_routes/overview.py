"""What the page shows around threads: the database, its sizes, and graphs to draw."""

from __future__ import annotations

from typing import Any

import msgspec

from milepost import inspect
from milepost._internal.version import __version__
from milepost.inspect import Stats
from milepost.server._graphs import drawing, schemas
from milepost.server._routing import Call, Empty, Routes

routes = Routes("milepost")


class DatabaseInfo(msgspec.Struct):
    """The database; its address is without the password."""

    url: str
    kind: str
    flavour: str


class GraphInfo(msgspec.Struct):
    """A graph that can be drawn, and run if the server may write."""

    graph_id: str
    assistant_id: str
    name: str


class Info(msgspec.Struct, kw_only=True):
    """What the page asks for first."""

    version: str
    database: DatabaseInfo
    write: bool
    store: bool
    graphs: list[GraphInfo]


@routes.get("/milepost/info")
def info(call: Call[Empty, Empty]) -> Info:
    """What this server shows, and whether it may change it."""
    server = call.server
    database = server.database
    graphs = [
        GraphInfo(one.graph_id, one.assistant_id, one.name)
        for one in (server.assistants.get(graph_id) for graph_id in server.graphs)
    ]
    return Info(
        version=__version__,
        database=DatabaseInfo(database.url, database.kind, database.flavour),
        write=server.write,
        store=database.store is not None,
        graphs=graphs,
    )


class StatsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which thread's totals; all threads by default."""

    thread_id: str | None = None


@routes.get("/milepost/stats")
def stats(call: Call[Empty, StatsQuery]) -> Stats:
    """How much room threads and channels take."""
    return inspect.stats(call.server.database, call.query.thread_id)


class Node(msgspec.Struct):
    """A node of a drawing: start, end, node or graph."""

    id: str
    kind: str


class Edge(msgspec.Struct):
    """An edge of a drawing."""

    source: str
    target: str
    conditional: bool
    label: str | None


class Graph(msgspec.Struct):
    """The drawing of a graph, and the schema of its input."""

    graph_id: str
    nodes: list[Node]
    edges: list[Edge]
    input_schema: dict[str, Any] | None


@routes.get("/milepost/graphs/{graph_id}")
def graph(call: Call[Empty, Empty]) -> Graph:
    """A graph, to be drawn beside a thread."""
    graph_id = call.path["graph_id"]
    found = call.server.graph(graph_id)
    inner = {name for name, _ in found.get_subgraphs()}
    drawn = drawing(found)
    kinds = {"__start__": "start", "__end__": "end", **dict.fromkeys(inner, "graph")}
    return Graph(
        graph_id,
        [Node(str(node["id"]), kinds.get(node["id"], "node")) for node in drawn["nodes"]],
        [
            Edge(edge["source"], edge["target"], bool(edge.get("conditional")), edge.get("data"))
            for edge in drawn["edges"]
        ],
        schemas(found).input_schema,
    )
