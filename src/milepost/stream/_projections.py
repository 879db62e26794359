"""Transformers that pass on one stream mode of a graph, without the events of its inner graphs."""

from __future__ import annotations

from typing import Any, ClassVar

from milepost.stream._types import ProtocolEvent, StreamTransformer
from milepost.stream.stream_channel import StreamChannel


class Projection(StreamTransformer):
    """The events of one mode as a stream of the mode's name."""

    _native = True
    mode: ClassVar[str]

    def __init_subclass__(cls, mode: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if mode is not None:
            cls.mode = mode
            cls.required_stream_modes = (mode,)

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._log: StreamChannel[Any] = StreamChannel()
        self._scope_list = list(scope)

    def init(self) -> dict[str, Any]:
        """The one stream."""
        return {self.mode: self._log}

    def process(self, event: ProtocolEvent) -> bool:
        """Pass an event on if it is of this mode and this graph."""
        if event["method"] == self.mode and event["params"]["namespace"] == self._scope_list:
            self._take(event["params"]["data"])
        return True

    def _take(self, data: Any) -> None:
        self._log.push(data)


class ValuesTransformer(Projection, mode="values"):
    """`run.values`: the state after each step.

    Args:
        scope: The graph whose state it sees: () for the outermost.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> graph = builder.add_edge(START, "work").compile()
        >>> list(graph.stream_events({"n": 0}, version="v3").values)
        [{'n': 0}, {'n': 1}]
    """

    @property
    def error(self) -> BaseException | None:
        """What the run failed with."""
        return self._log._error


class UpdatesTransformer(Projection, mode="updates"):
    """`run.updates`: what each node wrote, by its name.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.stream import UpdatesTransformer
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> graph = builder.add_edge(START, "work").compile(transformers=[UpdatesTransformer])
        >>> list(graph.stream_events({}, version="v3").updates)
        [{'work': {'n': 1}}]
    """


class CustomTransformer(Projection, mode="custom"):
    """`run.custom`: what nodes gave their stream writers.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.runtime import Runtime
        >>> from milepost.stream import CustomTransformer
        >>> def work(state: dict, runtime: Runtime):
        ...     runtime.stream_writer("half done")
        >>> builder = StateGraph(dict).add_node("work", work).add_edge(START, "work")
        >>> graph = builder.compile(transformers=[CustomTransformer])
        >>> list(graph.stream_events({}, version="v3").custom)
        ['half done']
    """


class CheckpointsTransformer(Projection, mode="checkpoints"):
    """`run.checkpoints`: checkpoints as they are made.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.stream import CheckpointsTransformer
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> builder = builder.add_edge(START, "work")
        >>> graph = builder.compile(InMemorySaver(), transformers=[CheckpointsTransformer])
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> [one["next"] for one in graph.stream_events({}, config, version="v3").checkpoints]
        [['__start__'], ['work'], []]
    """


class TasksTransformer(Projection, mode="tasks"):
    """`run.tasks`: tasks as they begin and end.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.stream import TasksTransformer
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> graph = builder.add_edge(START, "work").compile(transformers=[TasksTransformer])
        >>> ["result" in task for task in graph.stream_events({}, version="v3").tasks]
        [False, True]
    """


class DebugTransformer(Projection, mode="debug"):
    """`run.debug`: checkpoints and tasks, with step and time.

    Examples:
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.stream import DebugTransformer
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> graph = builder.add_edge(START, "work").compile(transformers=[DebugTransformer])
        >>> {"task", "task_result"} <= {
        ...     event["type"] for event in graph.stream_events({}, version="v3").debug
        ... }
        True
    """
