"""Looking at threads and changing them: `get_state`, `update_state` and the like.

Nothing is decided here. Every method builds the program of what is to be done and hands it to
the driver of its colour.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from milepost.checkpoint.records import place_of
from milepost.constants import START
from milepost.errors import CheckpointNotFoundError, GraphBuildError
from milepost.graph.request import GraphCore
from milepost.runtime.at_exit import end_async_at_exit
from milepost.runtime.caching import namespace_of
from milepost.runtime.checkpoints import node_names
from milepost.runtime.config import merge_configs
from milepost.runtime.driving import async_driver
from milepost.runtime.effects import Ask, RunProgram
from milepost.runtime.history import View, read_history, read_state
from milepost.runtime.scope import find_scope
from milepost.runtime.stream import Feed, Part
from milepost.runtime.sync import SyncDriver
from milepost.runtime.update import UpdateSession
from milepost.types import OnConflict, RunnableConfig, StateSnapshot, StateUpdate

if TYPE_CHECKING:
    from milepost.checkpoint.base import BaseCheckpointSaver


class ThreadedGraph(GraphCore):
    """The methods that are about threads."""

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The state at the checkpoint that `config` names, or at the latest of its thread."""
        view, config = self._view(config)
        return SyncDriver().run(read_state(view, config, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state`, for use on an event loop."""
        view, config = self._view(config)
        return await async_driver().run(read_state(view, config, subgraphs=subgraphs))

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The states of a thread, newest first.

        `filter` compares metadata; `before` names a checkpoint, and only older ones are given.
        """
        feed, program = self._history(config, filter, before, limit)
        for part in SyncDriver(feed).stream(program):
            yield part.payload

    def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncGenerator[StateSnapshot, None]:
        """`get_state_history`, for use on an event loop."""
        driver = async_driver()

        def begin() -> RunProgram[None]:
            driver.feed, program = self._history(config, filter, before, limit)
            return program

        return end_async_at_exit(driver.stream(begin, attrgetter("payload")), driver)

    def update_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
        *,
        on_conflict: OnConflict | None = None,
    ) -> RunnableConfig:
        """Write to a thread as if `as_node` had returned `values`; returns the new config.

        Without `as_node` it is the last node that wrote, if that is clear. If a run is at work on
        the thread, `on_conflict` says whether to take it over or to be refused, as for a run.
        """
        steps = [[StateUpdate(values, as_node, task_id)]]
        return self.bulk_update_state(config, steps, on_conflict=on_conflict)

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
        *,
        on_conflict: OnConflict | None = None,
    ) -> RunnableConfig:
        """`update_state`, for use on an event loop."""
        steps = [[StateUpdate(values, as_node, task_id)]]
        return await self.abulk_update_state(config, steps, on_conflict=on_conflict)

    def bulk_update_state(
        self,
        config: RunnableConfig,
        supersteps: Sequence[Sequence[StateUpdate]],
        *,
        on_conflict: OnConflict | None = None,
    ) -> RunnableConfig:
        """Several updates: one checkpoint for each inner sequence."""
        return SyncDriver().run(self._update(config, supersteps, on_conflict))

    async def abulk_update_state(
        self,
        config: RunnableConfig,
        supersteps: Sequence[Sequence[StateUpdate]],
        *,
        on_conflict: OnConflict | None = None,
    ) -> RunnableConfig:
        """`bulk_update_state`, for use on an event loop."""
        return await async_driver().run(self._update(config, supersteps, on_conflict))

    def delete_thread(self, thread_id: str) -> None:
        """Remove everything that is saved of a thread."""
        _check_thread_id(thread_id)
        SyncDriver().ask(Ask(self._saver(), "delete_thread", (thread_id,)))

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, for use on an event loop."""
        _check_thread_id(thread_id)
        await async_driver().ask(Ask(self._saver(), "delete_thread", (thread_id,)))

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget cached results of some nodes, or of all."""
        if self.cache is None:
            raise ValueError("The graph has no cache: compile it with one.")
        self.cache.clear(self._cache_namespaces(nodes))

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """`clear_cache`, for use on an event loop."""
        if self.cache is None:
            raise ValueError("The graph has no cache: compile it with one.")
        await self.cache.aclear(self._cache_namespaces(nodes))

    def _cache_namespaces(self, nodes: Sequence[str] | None) -> list[tuple[str, ...]]:
        wanted = [name for name in self.program.nodes if name != START] if nodes is None else nodes
        return [namespace_of(self.program.nodes[name]) for name in wanted]

    def _saver(self) -> BaseCheckpointSaver[Any]:
        saver = self.checkpointer
        if saver is None or isinstance(saver, bool):
            scope = find_scope()
            if saver is not False and scope is not None and scope.session.ledger is not None:
                return scope.session.ledger.saver
            raise GraphBuildError(
                "No checkpointer set: threads need one. Compile the graph with "
                "`compile(checkpointer=InMemorySaver())` or another saver."
            )
        return saver

    def _view(self, config: RunnableConfig) -> tuple[View, RunnableConfig]:
        """How to read the thread that `config` names, and the graph in it."""
        config = merge_configs(self.config, config)
        view = self._own_view(self._saver())
        place = place_of(config)
        for name in node_names(place.checkpoint_ns):
            inner = view.inside(name)
            if inner is None:
                raise CheckpointNotFoundError(
                    f"Subgraph '{place.checkpoint_ns}' was not found: '{name}' is not a node of "
                    f"graph '{view.program.name}' with a saved graph inside."
                )
            view = inner
        return view, config

    def _own_view(self, saver: BaseCheckpointSaver[Any]) -> View:
        def inside(name: str) -> View | None:
            node = self.program.nodes.get(name)
            for graph in node.subgraphs if node is not None else ():
                if graph.checkpointer is not False:
                    own = graph.checkpointer
                    inner: View = graph._own_view(
                        saver if own is None or isinstance(own, bool) else own
                    )
                    return inner
            return None

        scope = find_scope()
        ledger = scope.session.ledger if scope is not None else None
        writing = ledger if ledger is not None and ledger.saver is saver else None
        return View(self.program, saver, writing, inside)

    def _history(
        self,
        config: RunnableConfig,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> tuple[Feed, RunProgram[None]]:
        view, config = self._view(config)
        feed = Feed()

        def emit(snapshot: StateSnapshot) -> None:
            feed.parts.append(Part((), "values", snapshot))

        return feed, read_history(
            view, config, filter=filter, before=before, limit=limit, emit=emit
        )

    def _update(
        self,
        config: RunnableConfig,
        supersteps: Sequence[Sequence[StateUpdate]],
        on_conflict: OnConflict | None,
    ) -> RunProgram[RunnableConfig]:
        view, config = self._view(config)
        scope = find_scope()
        options = self._options(config, {"on_conflict": on_conflict}, None)
        options = replace(options, checkpointer=view.saver, durability="sync")
        session = UpdateSession(view.program, options, Feed(), None)
        if scope is not None:
            session.share_ledger(scope.session.ledger)
        return session.update(supersteps)


def _check_thread_id(thread_id: object) -> None:
    if isinstance(thread_id, dict):
        raise TypeError(
            'delete_thread takes the id of a thread, not a config: pass config["configurable"]'
            '["thread_id"].'
        )
