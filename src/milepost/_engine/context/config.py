"""What a caller passes to a run: its config and its settings; and the config that nodes get."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost._engine.context.runtime import GIVEN_RUNTIME, RunControl, Runtime
from milepost._internal.dataclass_tools import record
from milepost._internal.other_root import advice
from milepost.constants import NS_SEP
from milepost.errors import GraphBuildError
from milepost.types import All, RetryPolicy, RunnableConfig

if TYPE_CHECKING:
    from uuid import UUID

    from milepost._engine.position import Position
    from milepost._engine.superstep.plan import Task
    from milepost.cache.base import BaseCache
    from milepost.store.base import BaseStore
    from milepost.types import Checkpointer, Durability, OnConflict

DEFAULT_RECURSION_LIMIT = int(os.environ.get("MILEPOST_DEFAULT_RECURSION_LIMIT", "10007"))

_MAPPINGS = ("configurable", "metadata")
_KEYS = frozenset(RunnableConfig.__annotations__)


def merge_configs(*configs: RunnableConfig | None) -> RunnableConfig:
    """One config out of several; later ones win, mappings and tags are joined."""
    merged: dict[str, Any] = {}
    for config in configs:
        if not config:
            continue
        for key, value in checked_config(config).items():
            if value is None:
                continue
            if key in _MAPPINGS:
                if not isinstance(value, dict):
                    raise TypeError(f"config['{key}'] must be a dict, not {type(value).__name__}.")
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "tags":
                # Without repeats: an inner graph may be given the config that it inherits anyway.
                merged[key] = list(dict.fromkeys([*merged.get(key, ()), *value]))  # type: ignore[misc]
            elif key == "callbacks" and key in merged:
                merged[key] = _merged_callbacks(merged[key], value)
            else:
                merged[key] = value
    return merged  # type: ignore[return-value]


def run_config(*configs: RunnableConfig | None) -> RunnableConfig:
    """The config of a run or of a reading, or the default of a graph, out of several.

    A key that no config has by itself, such as a bare `thread_id`, belongs to `configurable`.
    """
    merged = merge_configs(*configs)
    if own := merged.keys() - _KEYS:
        rest: Any = dict(merged)
        moved = {key: rest.pop(key) for key in own}
        rest["configurable"] = {**rest.get("configurable", {}), **moved}
        merged = rest
    return merged


def _merged_callbacks(before: Any, after: Any) -> Any:
    """The handlers of both. Each is a list, or a manager of LangChain, which has a parent run."""
    if after is before or not after:
        return before
    if not before:
        return after
    lists = isinstance(before, (list, tuple)), isinstance(after, (list, tuple))
    if lists == (True, True):
        return [*before, *(handler for handler in after if handler not in before)]
    if lists == (False, False):
        return before.merge(after)
    manager, handlers = (after, before) if lists[0] else (before, after)
    merged = manager.copy()
    for handler in handlers:
        merged.add_handler(handler, inherit=True)
    return merged


def checked_config(config: Any) -> RunnableConfig:
    """`config`; TypeError if it cannot be one."""
    if type(config) is not dict and not isinstance(config, Mapping):
        raise TypeError(
            'A config is a dict such as {"configurable": {"thread_id": "1"}}, not '
            f"{type(config).__name__}."
        )
    return config  # type: ignore[return-value]


def recursion_limit(config: RunnableConfig) -> int:
    """How many super-steps a run may take."""
    limit = config.get("recursion_limit", DEFAULT_RECURSION_LIMIT)
    if not isinstance(limit, (int, float)) or limit < 1:
        raise ValueError(f"recursion_limit must be a number of steps from 1 up, not {limit!r}.")
    return int(limit)


def retry_policies(
    given: RetryPolicy | Sequence[RetryPolicy] | None,
) -> tuple[RetryPolicy, ...]:
    """The policies of a node or task, checked when they are given."""
    if given is None:
        return ()
    policies = (given,) if isinstance(given, RetryPolicy) else tuple(given)
    for policy in policies:
        if not isinstance(policy, RetryPolicy):
            raise GraphBuildError(
                f"A retry policy must be a RetryPolicy, not {policy!r}."
                f"{advice(given) or advice(policy)}"
            )
        on = policy.retry_on
        kinds = on if isinstance(on, (list, tuple)) else [on] if isinstance(on, type) else []
        if not kinds and not callable(on):
            raise GraphBuildError(
                "retry_on must be an exception class, a list or tuple of them, or a function of "
                f"the error, not {on!r}."
            )
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise GraphBuildError(f"retry_on names {kind!r}, which is no exception class.")
    return policies


METADATA_KEYS = ("thread_id", "checkpoint_id", "task_id", "run_id", "assistant_id", "graph_id")
"""Keys of `configurable` that are copied to a node's metadata, for tracers and streams."""


def node_config(config: RunnableConfig, position: Position, task: Task) -> RunnableConfig:
    """The config that a node sees, in a run with this config."""
    given = config.get("configurable") or {}
    configurable = {
        key: value
        for key, value in given.items()
        if key not in ("checkpoint_id", "checkpoint_map", "checkpoint_ns")
    }
    configurable["checkpoint_ns"] = position.ns
    configurable["checkpoint_id"] = position.stored_id
    metadata = {
        # Of the outermost task: an inner graph inherits the namespace from its caller.
        "checkpoint_ns": given.get("checkpoint_ns") or task.ns,
        **(config.get("metadata") or {}),
        **task.node.metadata,
        "langgraph_step": position.step + 1,
        "langgraph_node": task.name,
        "langgraph_triggers": tuple(task.triggers),
        "langgraph_path": (*task.path, True) if task.called else task.path,
        "langgraph_checkpoint_ns": NS_SEP.join(shown_parts(task.ns, position, task)),
    }
    for key in METADATA_KEYS:
        # The `checkpoint_id` in the config of an inner graph is that of its caller.
        if given.get(key) and (key != "checkpoint_id" or position.parent is None):
            metadata.setdefault(key, given[key])
    seen: RunnableConfig = {
        **config,
        "configurable": configurable,
        "metadata": metadata,
        "tags": [*config.get("tags", ()), *task.node.tags],
    }
    # Both keys name this run; a LangChain runnable would take them for its own.
    seen.pop("run_id", None)
    seen.pop("run_name", None)
    return seen


def shown_parts(ns: str, position: Position, task: Task | None = None) -> tuple[str, ...]:
    """A namespace of a run, or inside a task of the run, as the tuple that streams show.

    Of the calls of tools, which are tasks of their own, it has what tells them apart: the number
    of each but the first.
    """
    parts = ns.split(NS_SEP)
    while True:
        while task is not None:
            if task.node.silent:
                parts[task.ns.count(NS_SEP)] = str(task.path[-1] or "")
            task = task.caller
        if position.parent is None:
            return tuple(filter(None, parts))
        task, position = position.parent.task, position.parent.run.position


def concurrency(config: RunnableConfig) -> int | None:
    """How many tasks may run at the same time; None if the config does not say."""
    limit = config.get("max_concurrency") or None  # 0 is no limit
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise ValueError(f"max_concurrency must be a number of tasks from 1 up, not {limit!r}.")
    return limit


def check_interrupt_nodes(names: All | Sequence[str] | None, nodes: Collection[str]) -> None:
    """Raise GraphBuildError if an interrupt list names a node that is not there."""
    for error in unknown_interrupt_nodes(names, nodes):
        raise error


def unknown_interrupt_nodes(
    names: All | Sequence[str] | None, nodes: Collection[str]
) -> list[GraphBuildError]:
    """An error for each name in an interrupt list that is no node."""
    if not names or names == "*":
        return []
    return [
        GraphBuildError(
            f"Interrupt node '{name}' is not in the graph. "
            f"Its nodes are: {', '.join(sorted(nodes))}."
        )
        for name in ([names] if isinstance(names, str) else names)
        if name not in nodes
    ]


# -- settings


@record(kw_only=True)
class RunSettings:
    """What a caller passes to a run, and what the graph was compiled with."""

    config: RunnableConfig
    checkpointer: Checkpointer = None
    durability: Durability | None = None
    on_conflict: OnConflict = "newest"
    context: Any = None
    interrupt_before: All | Sequence[str] = ()
    interrupt_after: All | Sequence[str] = ()
    output_keys: str | Sequence[str] | None = None
    control: RunControl | None = None
    step_timeout: float | None = None
    """How many seconds a super-step may take."""
    store: BaseStore | None = None
    cache: BaseCache[Any] | None = None
    run_name: str = "LangGraph"
    """What callbacks and traces call the run."""
    run_id: UUID | None = None
    """The id of this run for callbacks: given by the caller, not inherited."""
    own_thread: bool = False
    """Inside another run: whether the caller names a thread for this one."""


@record(frozen=False)
class RunResources:
    """What the tasks of a run can use: given by the caller, or inherited from the enclosing run."""

    config: RunnableConfig
    context: Any
    """What the caller passed as `context=`."""
    store: BaseStore | None
    cache: BaseCache[Any] | None
    control: RunControl
    previous: Any = None
    """For an entrypoint: what its last run on this thread returned."""


def resources_of(settings: RunSettings, above: RunResources | None) -> RunResources:
    """The resources of a run.

    What the settings lack is that of a Runtime in the config, or inherited from `above`. The store
    of the run above comes before that of the graph, unless this is a run on a thread of its own.
    """
    given = _given_runtime(settings.config)
    if above is None:
        above = RunResources(settings.config, None, None, None, RunControl())
    elif given is _given_runtime(above.config):
        given = None  # the run above had it, and may have changed it
    context, control = settings.context, settings.control
    store = settings.store
    if store is None or (above.store is not None and not settings.own_thread):
        store = above.store
    if given is not None:
        context = given.context if context is None else context
        control = control or given.control
        if given.store is not None:
            store = given.store
    return RunResources(
        settings.config,
        above.context if context is None else context,
        store,
        above.cache if settings.cache is None else settings.cache,
        control or above.control,
    )


def _given_runtime(config: RunnableConfig) -> Runtime[Any] | None:
    given = (config.get("configurable") or {}).get(GIVEN_RUNTIME)
    return given if isinstance(given, Runtime) else None
