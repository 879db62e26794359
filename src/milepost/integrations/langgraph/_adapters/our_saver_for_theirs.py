"""Our savers for their graphs."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver as TheirSaver
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.base import CheckpointTuple as TheirTuple

from milepost._engine.drivers.effects import is_sync_only
from milepost._internal.asyncio_tools import in_thread
from milepost.checkpoint._contract.step_saver import StepSaver
from milepost.checkpoint.base import BaseCheckpointSaver
from milepost.constants import ERROR, INTERRUPT
from milepost.integrations.langgraph._adapters import head_fence
from milepost.integrations.langgraph._adapters.saver_adapter import (
    Call,
    Calls,
    SaverAdapter,
    completed,
    sync_and_async,
)
from milepost.integrations.langgraph._formats.allowed_types import (
    AllowedTypes,
    calling_module,
    classes_named,
    reading_theirs,
)
from milepost.types import _Answered

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from milepost.checkpoint._contract.records import CheckpointTuple


def as_langgraph(
    saver: BaseCheckpointSaver[Any], *, types: Iterable[Any] = (), fence: bool = False
) -> TheirSaver[Any]:
    """A LangGraph saver that keeps its threads in one of milepost's.

    Args:
        saver: Where threads are kept.
        types: What may be stored and read back besides what milepost knows by itself: classes,
            schemas, or whole modules. The data types of the calling module are allowed, and those
            in the allowlist that LangGraph passes when LANGGRAPH_STRICT_MSGPACK is on.
        fence: LangGraph's writes carry no run token. With `fence`, a checkpoint of the root graph
            is stored only if its parent is the latest of the thread, or if the run was told to
            begin at that parent: of two workers on one thread, the second gets ThreadConflict.
            Without it both succeed, and the later one hides the other, as with LangGraph's own
            savers.

    Examples:
        >>> from langgraph.graph import START, StateGraph
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.integrations.langgraph import as_langgraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> graph = builder.add_edge(START, "work").compile(as_langgraph(InMemorySaver()))
        >>> graph.invoke({}, {"configurable": {"thread_id": "1"}})
        {'n': 1}
    """
    if not isinstance(saver, BaseCheckpointSaver):
        raise TypeError(
            f"as_langgraph needs a milepost saver, not {type(saver).__name__}."
            " A saver of LangGraph's needs no adapter in LangGraph's graphs."
        )
    if fence and not isinstance(saver, StepSaver):
        raise TypeError(
            f"as_langgraph(fence=True) needs one of milepost's own savers: {type(saver).__name__} "
            "cannot compare the latest checkpoint of a thread while it stores the next."
        )
    return AdaptedSaver(saver, [*calling_module(2), *types], fence=fence)


class AdaptedSaver(SaverAdapter, TheirSaver[Any]):
    """A milepost saver with LangGraph's base class. Made by `as_langgraph`."""

    def __init__(
        self, saver: BaseCheckpointSaver[Any], allowed: Sequence[Any] = (), *, fence: bool = False
    ) -> None:
        self._given = saver
        self._allowed = allowed
        serde = reading_theirs(saver.serde, AllowedTypes(allowed))
        self._saver = saver if serde is saver.serde else saver.with_serde(serde)
        self._fence = fence
        super().__init__(serde=self._saver.serde)

    def __repr__(self) -> str:
        return f"as_langgraph({self._given!r})"

    @property
    def config_specs(self) -> builtins.list[Any]:
        return self._given.config_specs

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> AdaptedSaver:
        """This saver, with more types allowed."""
        allowed = [*self._allowed, *classes_named(extra_allowlist)]
        return AdaptedSaver(self._given, allowed, fence=self._fence)

    async def _acall(self, wanted: Call) -> Any:
        if is_sync_only(self._saver):
            return await in_thread(self._call, wanted)
        answer = getattr(self._saver, f"a{wanted.method}")(*wanted.arguments, **wanted.named)
        return await completed(answer)

    # -- reading

    def _get_tuple(self, config: RunnableConfig) -> Calls[TheirTuple | None]:
        found = yield Call("get_tuple", config)
        if self._fence:
            head_fence.note_read(cast("Any", config), found)
        return None if found is None else _theirs(found)

    get_tuple, aget_tuple = sync_and_async(_get_tuple)

    def _page(self, config: Any, wanted: dict[str, Any]) -> Calls[Sequence[CheckpointTuple]]:
        listed: Sequence[CheckpointTuple] = yield Call("list", config, **wanted)
        return listed

    def _shown(self, found: CheckpointTuple) -> TheirTuple:
        return _theirs(found)

    # -- writing

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Calls[RunnableConfig]:
        given: Any = (config, checkpoint, get_checkpoint_metadata(config, metadata), new_versions)
        stored: RunnableConfig
        if self._fence and head_fence.is_compared(cast("Any", config)):
            outcome = yield Call("commit", [head_fence.prepared(self._saver, *given)])
            stored = head_fence.stored(cast("Any", config), checkpoint["id"], outcome)
        else:
            stored = yield Call("put", *given)
        return stored

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> Calls[None]:
        yield Call("put_writes", config, _storable(writes), task_id, task_path)

    put, aput = sync_and_async(_put)
    put_writes, aput_writes = sync_and_async(_put_writes)

    # `get_delta_channel_history` is inherited: LangGraph stores the writes of an update in another
    # way than we do, so its own walk over the ancestors is the one that reads them rightly.


def _theirs(found: CheckpointTuple) -> TheirTuple:
    """A checkpoint as LangGraph wants it."""
    return TheirTuple(
        cast("RunnableConfig", found.config),
        cast("Any", found.checkpoint),
        cast("Any", found.metadata),
        cast("RunnableConfig | None", found.parent_config),
        [
            (task, channel, _open_interrupts(value) if channel == INTERRUPT else value)
            for task, channel, value in found.pending_writes or ()
        ],
    )


def _open_interrupts(value: Any) -> Any:
    """milepost keeps answered interrupts beside the open ones; LangGraph knows only these."""
    if not isinstance(value, builtins.list):
        return value
    return [interrupt for interrupt in value if not isinstance(interrupt, _Answered)]


def _storable(writes: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    """A task's error as text: LangGraph's programs expect to read back what `repr` says of it."""
    return [
        (channel, repr(value) if channel == ERROR and isinstance(value, BaseException) else value)
        for channel, value in writes
    ]
