"""Events of a run as streams of their own: values, messages, inner graphs, and what you add.

    run = graph.stream_events(input, version="v3")
    for state in run.values:
        ...
    run.output

The caller who iterates drives the run; nothing runs in the background. A `StreamTransformer`, given
to `compile(transformers=[...])` or to the call, makes further streams out of the same events.

The examples of this module go on from here:

Examples:
    >>> from milepost.graph import START, StateGraph
    >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1}).add_edge(START, "work")
    >>> graph = builder.compile()
    >>> outer = StateGraph(dict).add_node("inner", graph).add_edge(START, "inner").compile()
"""

from milepost.stream._types import ProtocolEvent, StreamTransformer
from milepost.stream.run_stream import (
    AsyncGraphRunStream,
    AsyncSubgraphRunStream,
    GraphRunStream,
    SubgraphRunStream,
)
from milepost.stream.stream_channel import StreamChannel
from milepost.stream.transformers import (
    CheckpointsTransformer,
    CustomTransformer,
    DebugTransformer,
    LifecyclePayload,
    LifecycleTransformer,
    SubgraphStatus,
    SubgraphTransformer,
    TasksTransformer,
    UpdatesTransformer,
)

__all__ = [
    "AsyncGraphRunStream",
    "AsyncSubgraphRunStream",
    "CheckpointsTransformer",
    "CustomTransformer",
    "DebugTransformer",
    "GraphRunStream",
    "LifecyclePayload",
    "LifecycleTransformer",
    "ProtocolEvent",
    "StreamChannel",
    "StreamTransformer",
    "SubgraphRunStream",
    "SubgraphStatus",
    "SubgraphTransformer",
    "TasksTransformer",
    "UpdatesTransformer",
]
