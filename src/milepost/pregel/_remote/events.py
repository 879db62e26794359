"""What a RemoteGraph has because compiled graphs have it: events of a run, LangChain's methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from milepost._engine.context.config import merge_configs
from milepost.graph._runnable import RunnableMethods, _from_langchain, _runnable
from milepost.pregel._remote import wire
from milepost.pregel._remote.requests import Headers, RemoteClients
from milepost.pregel._remote.run_stream import (
    AsyncRemoteGraphRunStream,
    RemoteGraphRunStream,
    sent_input,
)

if TYPE_CHECKING:
    from milepost.pregel._remote.options import RemoteEventOptions
    from milepost.types import All, RunnableConfig


def _property_of_runnable(name: str) -> property:
    def get(self: Any) -> Any:
        return getattr(_runnable(name), name).fget(self)

    get.__name__ = name
    get.__doc__ = f"LangChain's `Runnable.{name}`."
    return property(get)


class RemoteRunnable(RemoteClients, RunnableMethods):
    """A graph on a server as a LangChain Runnable."""

    batch = _from_langchain("batch")
    abatch = _from_langchain("abatch")
    get_input_schema = _from_langchain("get_input_schema")
    get_output_schema = _from_langchain("get_output_schema")
    get_input_jsonschema = _from_langchain("get_input_jsonschema")
    get_output_jsonschema = _from_langchain("get_output_jsonschema")
    get_config_jsonschema = _from_langchain("get_config_jsonschema")
    config_schema = _from_langchain("config_schema")
    InputType = _property_of_runnable("InputType")
    OutputType = _property_of_runnable("OutputType")
    input_schema = _property_of_runnable("input_schema")
    output_schema = _property_of_runnable("output_schema")

    def stream_events(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2", "v3"] = "v2",
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        control: Any = None,
        transformers: Sequence[Any] | None = None,
        headers: Headers = None,
        **kwargs: Unpack[RemoteEventOptions],
    ) -> Any:
        """With `version="v3"` the run on the server as streams; enter it with `with`.

        Args:
            input: The input, None to go on with the thread, or a Command.
            config: Names the thread, and what else a caller says about a run.
            version: "v3"; others are LangChain's, and async.
            interrupt_before: Nodes to pause before, or "*".
            interrupt_after: Nodes to pause after, or "*".
            control: Not offered by servers.
            transformers: Make more streams.
            headers: Added to the request.
            **kwargs: `metadata`, kept with the run on the server.
        """
        if version != "v3":
            return _runnable("stream_events").stream_events(
                self, input, config, version=version, **kwargs
            )
        breaks = {"interrupt_before": interrupt_before, "interrupt_after": interrupt_after}
        _refuse({"control": control, "transformers": transformers, **breaks}, kwargs)
        return RemoteGraphRunStream(*self._open(self._sync(), input, config, headers, kwargs))

    async def astream_events(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2", "v3"] = "v2",
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        control: Any = None,
        transformers: Sequence[Any] | None = None,
        headers: Headers = None,
        **kwargs: Unpack[RemoteEventOptions],
    ) -> Any:
        """`stream_events`, for use on an event loop; enter it with `async with`."""
        if version != "v3":
            raise NotImplementedError(
                f"astream_events(version={version!r}) of a RemoteGraph is not implemented: use "
                "astream(), or version='v3'."
            )
        breaks = {"interrupt_before": interrupt_before, "interrupt_after": interrupt_after}
        _refuse({"control": control, "transformers": transformers, **breaks}, kwargs)
        return AsyncRemoteGraphRunStream(*self._open(self._async(), input, config, headers, kwargs))

    def _open(
        self,
        client: Any,
        input: Any,
        config: RunnableConfig | None,
        headers: Headers,
        more: Mapping[str, object],
    ) -> tuple[Any, Any, dict[str, Any]]:
        """The client, its thread, and the arguments that its run is started with."""
        sent = wire.sent_config(merge_configs(self.config, config))
        thread_id = sent.get("configurable", {}).pop("thread_id", None)
        thread = client.threads.stream(
            thread_id=thread_id, assistant_id=self.assistant_id, headers=self._headers(headers)
        )
        started = {"input": sent_input(input), "config": sent, "metadata": more.get("metadata")}
        return client, thread, started


def _refuse(options: Mapping[str, object], more: Mapping[str, object]) -> None:
    """Refuse options that the protocol of the server lacks."""
    given = [name for name, value in options.items() if value is not None]
    unknown = [*given, *sorted(more.keys() - {"metadata"})]
    if unknown:
        raise NotImplementedError(
            f"stream_events(version='v3') of a RemoteGraph does not support {', '.join(unknown)}: "
            "use stream(), or leave it out."
        )
