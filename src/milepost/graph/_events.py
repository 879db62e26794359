"""`stream_events(version="v3")`: a run as streams that transformers make of its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from milepost._engine.context.config import shown_parts
from milepost._engine.context.task_context import find_context
from milepost.constants import NS_SEP
from milepost.stream._mux import StreamMux, TransformerFactory
from milepost.stream._types import StreamTransformer
from milepost.stream.run_stream import AsyncGraphRunStream, GraphRunStream
from milepost.stream.transformers import (
    LifecycleTransformer,
    MessagesTransformer,
    SubgraphTransformer,
    ValuesTransformer,
)
from milepost.types import ContextT, StreamMode, UnversionedRunOptions

if TYPE_CHECKING:
    from milepost.graph._typing import AnyGraph
    from milepost.types import RunnableConfig

_BUILT_IN: tuple[TransformerFactory, ...] = (
    ValuesTransformer,
    MessagesTransformer,
    LifecycleTransformer,
    SubgraphTransformer,
)


class CallbackEventOptions(UnversionedRunOptions[ContextT], Generic[ContextT], total=False):
    """What `astream_events` takes in versions 1 and 2, which LangChain makes out of callbacks."""

    stream_mode: StreamMode | Sequence[StreamMode] | None
    """What the chunks of the graph itself are; the same as in `astream` by default."""
    subgraphs: bool
    """Whether these chunks come from inner graphs too."""
    include_names: Sequence[str] | None
    """Only events of runnables with these names."""
    include_types: Sequence[str] | None
    """Only events of runnables of these types, such as "chat_model"."""
    include_tags: Sequence[str] | None
    """Only events of runnables with one of these tags."""
    exclude_names: Sequence[str] | None
    exclude_types: Sequence[str] | None
    exclude_tags: Sequence[str] | None


_OWNED = ("stream_mode", "subgraphs", "version")


def run_stream(
    graph: AnyGraph,
    input: Any,
    config: RunnableConfig | None,
    transformers: Sequence[TransformerFactory] | None,
    options: Mapping[str, Any],
    *,
    is_async: bool,
) -> GraphRunStream | AsyncGraphRunStream:
    """The run of a graph, in all modes that its transformers need."""
    for name in _OWNED:
        if name in options:
            raise TypeError(
                f"stream_events(version='v3') does not accept {name}: its transformers decide "
                "what is streamed, and inner graphs always are."
            )
    factories = (*_BUILT_IN, *graph.stream_transformers, *checked_factories(transformers))
    mux = StreamMux(factories=factories, scope=_own_namespace(), is_async=is_async)
    modes = dict.fromkeys(mode for each in mux._transformers for mode in each.required_stream_modes)
    stream: Callable[..., Any] = graph.astream if is_async else graph.stream
    parts = stream(input, config, stream_mode=list(modes), subgraphs=True, version="v3", **options)
    return AsyncGraphRunStream(aiter(parts), mux) if is_async else GraphRunStream(iter(parts), mux)


def checked_factories(
    given: Sequence[TransformerFactory] | None,
) -> tuple[TransformerFactory, ...]:
    """What makes transformers, if it can make one for every inner graph."""
    made: Sequence[object] = given or ()
    for factory in made:
        if isinstance(factory, StreamTransformer) or not callable(factory):
            kind = "pre-built instance " if isinstance(factory, StreamTransformer) else ""
            raise TypeError(
                f"transformers takes scope-aware callables, not the {kind}{factory!r}: inner "
                "graphs get their own. Pass the class, or `lambda scope: Mine(scope, ...)`."
            )
    return tuple(given or ())


def _own_namespace() -> tuple[str, ...]:
    """The namespace that a graph called here has: () but inside a node."""
    context = find_context()
    if context is None:
        return ()
    ns, at = context.task.ns, context.children
    inside = ns if at == 0 else f"{ns}{NS_SEP}{at}"
    return shown_parts(inside, context.run.position, context.task)
