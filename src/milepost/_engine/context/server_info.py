"""What a server that runs graphs tells their nodes about a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from milepost._internal.dataclass_tools import frozen


@runtime_checkable
class BaseUser(Protocol):
    """Who calls, as the server's authentication found; fields are keys too.

    Examples:
        >>> from milepost.runtime import BaseUser, Runtime
        >>> def node(state, runtime: Runtime):
        ...     user: BaseUser | None = runtime.server_info and runtime.server_info.user
        ...     return {"by": user.identity if user else "local"}
    """

    @property
    def is_authenticated(self) -> bool:
        """Whether the server knows who it is."""

    @property
    def display_name(self) -> str:
        """A name to show."""

    @property
    def identity(self) -> str:
        """The name that is one user's alone."""

    @property
    def permissions(self) -> Sequence[str]:
        """What the user may do."""

    def __getitem__(self, key: str) -> Any: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...


@frozen()
class ServerInfo:
    """Which assistant and graph of a server this call is for, and who calls.

    Examples:
        >>> from milepost.runtime import ServerInfo
        >>> ServerInfo(assistant_id="a1", graph_id="chat").graph_id
        'chat'
    """

    assistant_id: str
    """The assistant: a graph with a configuration of its own."""
    graph_id: str
    """The name under which the server knows the graph."""
    user: BaseUser | None = None
    """Who calls; `None` without authentication."""


def server_info(configurable: Mapping[str, Any]) -> ServerInfo | None:
    """What a server has put into the config of a call; None if nothing is there."""
    assistant, graph = configurable.get("assistant_id"), configurable.get("graph_id")
    user = configurable.get("langgraph_auth_user")
    if not hasattr(user, "identity"):
        user = None
    if assistant is None and graph is None and user is None:
        return None
    return ServerInfo(str(assistant or ""), str(graph or ""), user)
