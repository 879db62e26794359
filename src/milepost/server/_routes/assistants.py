"""Assistants (graphs with a configuration), their drawings and their schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta
from starlette.responses import Response

from milepost.server._errors import refused
from milepost.server._graphs import drawing, schemas, subgraphs
from milepost.server._records import (
    Assistant,
    Drawing,
    GraphSchemas,
    IfExists,
    Limit,
    Offset,
    Schemas,
    SortOrder,
)
from milepost.server._routing import Call, Empty, Routes, list_response
from milepost.server._search import contains
from milepost.server._states import selected

routes = Routes("Assistants")

if TYPE_CHECKING:
    Field: TypeAlias = str
else:
    Field = Literal[*Assistant.__struct_fields__]


class AssistantPatch(msgspec.Struct, kw_only=True):
    """The changes that the next version has."""

    graph_id: str | None = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    name: str | None = None
    description: str | None = None


class AssistantCreate(AssistantPatch, kw_only=True):
    """A new assistant."""

    graph_id: str
    assistant_id: str | None = None
    if_exists: IfExists = "raise"


class AssistantFilter(msgspec.Struct, kw_only=True):
    """Which assistants are meant; all of it must hold."""

    metadata: dict[str, Any] | None = None
    graph_id: str | None = None
    name: str | None = None

    def holds(self, one: Assistant) -> bool:
        """Whether an assistant fulfils all conditions."""
        return (
            contains(one.metadata, self.metadata or {})
            and self.graph_id in (None, "", one.graph_id)
            and (self.name or "").lower() in one.name.lower()
        )


class AssistantSearch(AssistantFilter, kw_only=True):
    """Which assistants, in what order."""

    limit: Limit = 10
    offset: Offset = 0
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: SortOrder | None = None
    select: list[Field] | None = None


def _given(body: AssistantPatch) -> dict[str, Any]:
    fields = msgspec.structs.asdict(body)
    return {name: value for name, value in fields.items() if value is not None}


@routes.route("POST", "/assistants", writes=True)
def create(call: Call[AssistantCreate, Empty]) -> Assistant:
    """Make an assistant of a graph. It is kept in the database."""
    return call.server.assistants.create(**_given(call.body))


@routes.route("POST", "/assistants/search", answer=list[Assistant], is_partial=True)
def search(call: Call[AssistantSearch, Empty]) -> Response:
    """Find assistants."""
    body = call.body
    found = [one for one in call.server.assistants.all() if body.holds(one)]
    found.sort(
        key=lambda one: (getattr(one, body.sort_by or "created_at"), one.assistant_id),
        reverse=body.sort_order != "asc",
    )
    part = found[body.offset : body.offset + body.limit]
    shown = (selected(one, body.select) for one in part)
    return list_response(shown, call.server.limits.answer, len(found), body.offset)


@routes.route("POST", "/assistants/count")
def count(call: Call[AssistantFilter, Empty]) -> int:
    """How many assistants there are."""
    return sum(call.body.holds(one) for one in call.server.assistants.all())


@routes.get("/assistants/{assistant_id}")
def get(call: Call[Empty, Empty]) -> Assistant:
    """An assistant, by its id or its graph's."""
    return call.server.assistants.get(call.path["assistant_id"])


@routes.route("PATCH", "/assistants/{assistant_id}", writes=True)
def update(call: Call[AssistantPatch, Empty]) -> Assistant:
    """Make a new version of an assistant."""
    return call.server.assistants.update(call.path["assistant_id"], _given(call.body))


class AssistantDelete(msgspec.Struct, frozen=True):
    """`delete_threads` removes the threads of the assistant too."""

    delete_threads: bool = False


@routes.route("DELETE", "/assistants/{assistant_id}", writes=True, status=204)
def delete(call: Call[Empty, AssistantDelete]) -> None:
    """Remove an assistant with its versions."""
    gone = call.server.assistants.delete(call.path["assistant_id"])
    if call.query.delete_threads:
        call.server.delete_threads_of(gone.assistant_id)


class GraphQuery(msgspec.Struct, frozen=True):
    """`xray`: true shows inner graphs, a number so many levels of them."""

    xray: str = "false"


@routes.get("/assistants/{assistant_id}/graph", answer=Drawing)
def graph(call: Call[Empty, GraphQuery]) -> Any:
    """The drawing of an assistant's graph: nodes and edges."""
    return drawing(_graph_of(call), _xray(call.query.xray))


def _xray(text: str) -> bool | int:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise refused(f"xray must be true, false or a number of levels, not '{text}'.")
    return int(text)


@routes.get("/assistants/{assistant_id}/schemas")
def get_schemas(call: Call[Empty, Empty]) -> GraphSchemas:
    """The JSON schemas of an assistant's graph."""
    graph_id = call.server.assistants.get(call.path["assistant_id"]).graph_id
    found = schemas(call.server.graph(graph_id))
    return GraphSchemas(graph_id=graph_id, **msgspec.structs.asdict(found))


class SubgraphQuery(msgspec.Struct, frozen=True):
    """`recurse` goes into inner graphs of inner graphs."""

    recurse: bool = False


@routes.get("/assistants/{assistant_id}/subgraphs")
def get_subgraphs(call: Call[Empty, SubgraphQuery]) -> dict[str, Schemas]:
    """The graphs inside of an assistant's graph."""
    return subgraphs(_graph_of(call), None, call.query.recurse)


@routes.get("/assistants/{assistant_id}/subgraphs/{namespace}")
def get_subgraph(call: Call[Empty, SubgraphQuery]) -> dict[str, Schemas]:
    """One graph inside of an assistant's graph."""
    return subgraphs(_graph_of(call), call.path["namespace"], call.query.recurse)


class VersionSearch(msgspec.Struct, kw_only=True):
    """Which versions."""

    metadata: dict[str, Any] | None = None
    limit: Limit = 10
    offset: Offset = 0


@routes.route("POST", "/assistants/{assistant_id}/versions", answer=list[Assistant])
def versions(call: Call[VersionSearch, Empty]) -> Response:
    """The versions of an assistant, newest first."""
    body = call.body
    every = call.server.assistants.versions(call.path["assistant_id"])
    found = [one for one in every if contains(one.metadata, body.metadata or {})]
    part = found[body.offset : body.offset + body.limit]
    return list_response(part, call.server.limits.answer, len(found), body.offset)


class Version(msgspec.Struct):
    """A version, in the body or in the query."""

    version: Annotated[int, Meta(ge=1)] | None = None


@routes.route("POST", "/assistants/{assistant_id}/latest", writes=True)
def set_latest(call: Call[Version, Version]) -> Assistant:
    """Choose the version that counts."""
    version = call.body.version or call.query.version
    if version is None:
        raise refused('Say which version: {"version": 1}.')
    return call.server.assistants.set_latest(call.path["assistant_id"], version)


def _graph_of(call: Call[Any, Any]) -> Any:
    server = call.server
    return server.graph(server.assistants.get(call.path["assistant_id"]).graph_id)
