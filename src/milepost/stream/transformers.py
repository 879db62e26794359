"""The transformers that come with milepost.

Every run has `ValuesTransformer`, `MessagesTransformer`, `LifecycleTransformer` and
`SubgraphTransformer`. The others are added by name: `compile(transformers=[UpdatesTransformer])`.
"""

from milepost.stream._lifecycle import (
    LifecyclePayload,
    LifecycleTransformer,
    SubgraphStatus,
    _TasksLifecycleBase,  # noqa: F401  langchain derives its own from it
)
from milepost.stream._messages import MessagesTransformer
from milepost.stream._projections import (
    CheckpointsTransformer,
    CustomTransformer,
    DebugTransformer,
    TasksTransformer,
    UpdatesTransformer,
    ValuesTransformer,
)
from milepost.stream._subgraphs import SubgraphTransformer

__all__ = [
    "CheckpointsTransformer",
    "CustomTransformer",
    "DebugTransformer",
    "LifecyclePayload",
    "LifecycleTransformer",
    "MessagesTransformer",
    "SubgraphStatus",
    "SubgraphTransformer",
    "TasksTransformer",
    "UpdatesTransformer",
    "ValuesTransformer",
]
