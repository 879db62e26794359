"""What a run offers its tasks: config, runtime, stream writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.runtime.checkpoints import Bookkeeping
from milepost.runtime.scope import ExecutionInfo, RunControl, Runtime, Scope
from milepost.runtime.stream import Part, ns_parts
from milepost.types import RunnableConfig, StreamMode, StreamWriter

if TYPE_CHECKING:
    from milepost.runtime.plan import Task
    from milepost.store.base import BaseStore


class Offering(Bookkeeping):
    """The part of a run that its tasks see."""

    store: BaseStore | None
    previous: Any
    control: RunControl
    stop: int

    def _push(self, mode: StreamMode, payload: Any) -> None:
        self.feed.push(Part(ns_parts(self.ns), mode, payload))

    def config_for(self, task: Task) -> RunnableConfig:
        """The config that a node sees."""
        configurable = {
            key: value
            for key, value in (self.config.get("configurable") or {}).items()
            if key not in ("checkpoint_id", "checkpoint_map", "checkpoint_ns")
        }
        configurable["checkpoint_ns"] = self.ns
        configurable["checkpoint_id"] = self.stored_id
        metadata = {
            # Of the outermost task: a graph inside is given its caller's.
            "checkpoint_ns": task.ns,
            **(self.config.get("metadata") or {}),
            **task.node.metadata,
            "langgraph_step": self.step + 1,
            "langgraph_node": task.name,
            "langgraph_triggers": tuple(task.triggers),
            "langgraph_path": task.path,
            "langgraph_checkpoint_ns": task.ns,
        }
        if "thread_id" in configurable:
            metadata.setdefault("thread_id", configurable["thread_id"])
        config: RunnableConfig = {
            **self.config,
            "configurable": configurable,
            "metadata": metadata,
            "tags": [*self.config.get("tags", ()), *task.node.tags],
        }
        # They name this run; a LangChain runnable that got them would take them for its own.
        config.pop("run_id", None)
        config.pop("run_name", None)
        return config

    def writer_for(self, scope: Scope) -> StreamWriter:
        """Sends to the `custom` stream on behalf of a task."""

        def write(chunk: Any) -> None:
            scope.heartbeat()
            if self.feed.wants("custom"):
                self._push("custom", chunk)

        return write

    def runtime_for(self, scope: Scope) -> Runtime[Any]:
        """The runtime that a node sees."""
        task = scope.task
        run_id = self.config.get("run_id")
        return Runtime(
            context=self.context,
            store=self.store,
            stream_writer=self.writer_for(scope),
            heartbeat=scope.heartbeat,
            previous=self.previous,
            execution_info=ExecutionInfo(
                task_id=task.id,
                checkpoint_id=self.stored_id,
                checkpoint_ns=task.ns,
                thread_id=self.thread_id,
                run_id=None if run_id is None else str(run_id),
                node_attempt=scope.attempt,
                node_first_attempt_time=task.started,
                idempotency_key=self.idempotency_key(task),
            ),
            control=self.control,
        )

    @property
    def context(self) -> Any:
        """What the caller passed as `context=`, or the enclosing run's."""
        if self.options.context is None and self.parent is not None:
            return self.parent.session.context
        return self.options.context
