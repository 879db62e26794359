"""Names that have a meaning to the runtime.

Public: START, END, TAG_HIDDEN, TAG_NOSTREAM, CONF, CONFIG_KEY_CHECKPOINTER, TASKS.
"""

from typing import Any, Final

START: Final = "__start__"
"""The virtual node that takes the input of a graph."""
END: Final = "__end__"
"""The virtual node that ends a path through a graph."""

TAG_NOSTREAM: Final = "nostream"
"""Tag of a chat model whose tokens stay out of the `messages` stream."""
TAG_HIDDEN: Final = "langsmith:hidden"
"""Tag of what traces leave out; for programs that use the name."""

CONF: Final = "configurable"
"""The key of a config under which `thread_id` and the keys of the caller are."""
CONFIG_KEY_CHECKPOINTER: Final = "__pregel_checkpointer"
"""Under CONF: the saver of a call, instead of the one that the graph was compiled with."""

# Channels that the runtime writes to. Their names are part of the storage format, which is
# shared with LangGraph so that threads can be moved both ways.
INPUT: Final = "__input__"
ERROR: Final = "__error__"
SCHEDULED: Final = "__scheduled__"
INTERRUPT: Final = "__interrupt__"
RESUME: Final = "__resume__"
RETURN: Final = "__return__"
PREVIOUS: Final = "__previous__"
NO_WRITES: Final = "__no_writes__"
TASKS: Final = "__pregel_tasks"
ROOT: Final = "__root__"
BRANCH_TO: Final = "branch:to:"
"""Before a node's name: the channel of its edges."""
JOIN: Final = "join:"
"""Before the names of nodes and of the one that follows them all: the channel of a join."""

CHILDREN: Final = "__children__"
"""Where a checkpoint keeps, for inner graphs with memory of their own, how far they had come.

Among what nodes have seen; and of a task that is stored before its step has ended, among its
writes.
"""

ANSWERS: Final = "__answers__"
"""Among the writes that no task made: interrupt id → answer, kept before the tasks run."""

TRACED: Final = "__traced__"
"""Beside such answers: the trace context of the run that brought them, if that was traced."""

# First element of a task's path: started by a channel, by a `Send`, or by a call inside a node.
PULL: Final = "__pregel_pull"
PUSH: Final = "__pregel_push"

NULL_TASK_ID: Final = "00000000-0000-0000-0000-000000000000"
"""Owner of writes that no task made: answers and updates that came with a `Command` input."""

NS_SEP: Final = "|"
"""Between the levels of a checkpoint namespace: `outer:uuid|inner:uuid`."""
NS_END: Final = ":"
"""Between a node's name and its task's id in a checkpoint namespace."""

RESERVED: Final = frozenset(
    {
        START,
        END,
        INPUT,
        ERROR,
        SCHEDULED,
        INTERRUPT,
        RESUME,
        RETURN,
        PREVIOUS,
        NO_WRITES,
        TASKS,
        ROOT,
        ANSWERS,
        TRACED,
    }
)
"""Names that neither a node nor a state key may have."""


def __getattr__(name: str) -> Any:
    if name not in ("Interrupt", "Send"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import warnings

    from milepost import types
    from milepost.warnings import LangGraphDeprecatedSinceV10

    warnings.warn(
        f"Importing {name} from milepost.constants is deprecated: it is in milepost.types",
        LangGraphDeprecatedSinceV10,
        stacklevel=2,
    )
    return getattr(types, name)
