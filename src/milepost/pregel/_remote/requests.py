"""Requests to a server: client, headers and options, written once for sync and async clients."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar

from milepost._engine.context.config import merge_configs
from milepost._internal.generators import adrive, drive, method_pairs
from milepost._internal.supported import required
from milepost.errors import GraphBuildError, MissingThreadError
from milepost.pregel._remote.wire import sent_checkpoint

if TYPE_CHECKING:
    from milepost.types import All, Durability, RunnableConfig

T = TypeVar("T")
Headers: TypeAlias = dict[str, str] | None


class _AnyOptions(TypedDict, total=False):
    headers: Headers
    """Added to the request."""
    metadata: Mapping[str, Any] | None
    """Kept with the run on the server."""
    interrupt_before: All | Sequence[str] | None
    """Nodes to pause before, or "*"."""
    interrupt_after: All | Sequence[str] | None
    """Nodes to pause after, or "*"."""


class RemoteEventOptions(_AnyOptions, total=False):
    """What `stream_events` takes; with `version="v3"` servers take `headers` and `metadata`."""

    control: Any
    """Not offered by servers."""
    transformers: Sequence[Any] | None
    """Make more streams. Not offered by servers."""


class RemoteRunOptions(_AnyOptions, total=False):
    """What `invoke`, `stream` and their async forms pass on to the client's `runs.stream`.

    A client of an older version may lack some: it then raises a TypeError.
    """

    context: Any
    """What nodes find in `runtime.context`."""
    params: Any
    """Added to the address."""
    durability: Durability | None
    """When the server saves steps."""
    checkpoint_during: bool | None
    """Deprecated: `durability` "async" or "exit"."""
    checkpoint_id: str | None
    """The checkpoint to go on from."""
    multitask_strategy: Literal["reject", "interrupt", "rollback", "enqueue"] | None
    """What the server does if another run is on the thread."""
    on_completion: Literal["delete", "keep"] | None
    """What becomes of the thread that the server made for a run without one."""
    on_disconnect: Literal["cancel", "continue"] | None
    """What becomes of the run if the caller goes away."""
    on_run_created: Callable[[Any], None] | None
    """Called with the ids of the run and its thread."""
    stream_resumable: bool
    """Whether the server keeps the events, so that they can be read again."""
    strict_resume: bool | None
    """Whether an answer that nothing waits for is refused."""
    after_seconds: int | None
    """How long the server waits before the run begins."""
    webhook: str | None
    """An address that the server calls when the run has ended."""
    feedback_keys: Sequence[str] | None
    """Keys of feedback that LangSmith asks for."""
    langsmith_tracing: Mapping[str, Any] | None
    """The project and example of LangSmith's trace."""


class Request(NamedTuple):
    """A method of a part of the client, such as `threads.get_state`, and its arguments."""

    part: str
    method: str
    arguments: dict[str, Any]

    def send(self, client: Any) -> Any:
        """The answer of a sync client, or what an async one is awaited or iterated with."""
        return getattr(getattr(client, self.part), self.method)(**self.arguments)


Requests: TypeAlias = Generator[Request, Any, T]
"""Yields requests, is sent their answers, and returns the result."""


class RemoteClients:
    """A sync and an async client of one server, for one assistant of it."""

    def __init__(
        self,
        assistant_id: str,
        /,
        *,
        url: str | None = None,
        api_key: str | None = None,
        headers: Headers = None,
        client: Any = None,
        sync_client: Any = None,
        config: RunnableConfig | None = None,
        name: str | None = None,
        distributed_tracing: bool = False,
    ) -> None:
        self.assistant_id = assistant_id
        self.name = assistant_id if name is None else name
        self.config = config
        self.distributed_tracing = distributed_tracing
        if url is not None and (client is None or sync_client is None):
            with required(
                "RemoteGraph talks to its server through LangGraph's client: run "
                "`pip install 'milepost[remote]'`, or `pip install langgraph-sdk`."
            ):
                import langgraph_sdk as sdk
            client = client or sdk.get_client(url=url, api_key=api_key, headers=headers)
            sync_client = sync_client or sdk.get_sync_client(
                url=url, api_key=api_key, headers=headers
            )
        self.client = client
        self.sync_client = sync_client

    def _sync(self) -> Any:
        if self.sync_client is None:
            raise GraphBuildError(
                f"RemoteGraph '{self.name}' has no sync client: give it `url=` or `sync_client=`."
            )
        return self.sync_client

    def _async(self) -> Any:
        if self.client is None:
            raise GraphBuildError(
                f"RemoteGraph '{self.name}' has no async client: give it `url=` or `client=`."
            )
        return self.client

    def _on_thread(
        self, config: RunnableConfig | None, headers: Headers, params: Any
    ) -> dict[str, Any]:
        """The arguments of a request about the thread that a config names, or a place in it."""
        merged = merge_configs(self.config, config)
        thread_id = (merged.get("configurable") or {}).get("thread_id")
        if thread_id is None:
            raise MissingThreadError(
                f"RemoteGraph '{self.name}' was asked about a thread without saying which: pass "
                'config={"configurable": {"thread_id": "1"}}.'
            )
        place = {"thread_id": str(thread_id), "checkpoint": sent_checkpoint(merged)}
        return {**place, "headers": headers, "params": params}

    def _headers(self, given: Headers) -> Headers:
        """The headers of a request, with those that continue a trace of LangSmith."""
        if not self.distributed_tracing:
            return given
        with required(
            "distributed_tracing=True needs LangSmith's client: run `pip install langsmith`."
        ):
            from langsmith import get_current_run_tree
        tree = get_current_run_tree()
        if tree is None:
            return given
        traced = dict(tree.to_headers())
        if given and "baggage" in given and "baggage" in traced:
            traced["baggage"] = f"{given['baggage']},{traced['baggage']}"
        return {**(given or {}), **traced}


sync_and_async = method_pairs(
    lambda graph, requests, _: drive(requests, lambda request: request.send(graph._sync())),
    lambda graph, requests, _: adrive(requests, lambda request: request.send(graph._async())),
)
"""The two methods that send the requests of one generator."""
