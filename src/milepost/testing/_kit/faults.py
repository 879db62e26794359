"""A saver that fails on purpose: before a call, after it was carried out, or slowly.

    saver = FaultySaver(SqliteSaver(conn), fail_after("commit", nth=3))

It has the methods of the saver that it wraps and no others, so the runtime treats it the same.
A method is named by its sync name: "put" means `put` and `aput`.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, TypeVar

from milepost.checkpoint._contract.records import PendingWrite
from milepost.checkpoint._contract.step_saver import StepCommit, StepSaver
from milepost.checkpoint.base import BaseCheckpointSaver

SAVES = ("put", "put_writes", "commit")
"""The calls with which a run saves."""


class InjectedFault(ConnectionError):
    """The storage failed, because a test wanted it to.

    It is no MilepostError: a saver's storage fails with errors of its own, and so does this.
    """


@dataclass(frozen=True, slots=True)
class Fault:
    """An error to be raised, and the calls that raise the error.

    Examples:
        >>> from milepost.testing import fail_before
        >>> fail_before("put", nth=2).nth
        2
    """

    methods: tuple[str, ...]
    """Calls of these are counted together; all calls if there are none."""
    nth: int | None
    """The first call is 1; None means every call."""
    when: Literal["before", "after", "late"]
    """Before the call is carried out, after it, or after a while."""
    lasting: bool = False
    """Whether every later call fails too, as if the storage were gone."""
    seconds: float = 0.0
    """How long that while is."""
    error: Callable[[str], Exception] = InjectedFault
    """Makes the exception from a text."""


def fail_before(
    *methods: str,
    nth: int | None = 1,
    lasting: bool = False,
    error: Callable[[str], Exception] = InjectedFault,
) -> Fault:
    """The call fails and nothing is done.

    Args:
        *methods: Calls of these are counted together; all calls if there are none.
        nth: Which call, the first is 1; None for every call.
        lasting: Whether every later call fails too, as if the storage were gone.
        error: Makes the exception from a text.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.testing import FaultySaver, InjectedFault, fail_before
        >>> saver = FaultySaver(InMemorySaver(), fail_before("get_tuple"))
        >>> try:
        ...     saver.get_tuple({"configurable": {"thread_id": "1"}})
        ... except InjectedFault:
        ...     print("failed")
        failed
    """
    return Fault(methods, nth, "before", lasting, error=error)


def fail_after(
    *methods: str,
    nth: int | None = 1,
    lasting: bool = False,
    error: Callable[[str], Exception] = InjectedFault,
) -> Fault:
    """The call is carried out, but raises as if it had failed.

    Args:
        *methods: Calls of these are counted together; all calls if there are none.
        nth: Which call, the first is 1; None for every call.
        lasting: Whether every later call fails too, as if the storage were gone.
        error: Makes the exception from a text.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.testing import FaultySaver, fail_after
        >>> saver = FaultySaver(InMemorySaver(), fail_after("put", "commit", nth=3))
    """
    return Fault(methods, nth, "after", lasting, error=error)


def delay(*methods: str, seconds: float, nth: int | None = None) -> Fault:
    """The call is carried out after a while.

    Args:
        *methods: Calls of these are counted together; all calls if there are none.
        seconds: How long.
        nth: Which call, the first is 1; None for every call.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.testing import FaultySaver, delay
        >>> saver = FaultySaver(InMemorySaver(), delay("get_tuple", seconds=0.1))
    """
    return Fault(methods, nth, "late", seconds=seconds)


@dataclass(slots=True)
class SaverCall:
    """A call that a FaultySaver has seen.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.testing import FaultySaver
        >>> saver = FaultySaver(InMemorySaver())
        >>> saver.get_tuple({"configurable": {"thread_id": "1"}})
        >>> [(call.method, call.returned) for call in saver.calls]
        [('get_tuple', True)]
    """

    method: str
    """The name of the method."""
    arguments: tuple[Any, ...]
    """The arguments of the call."""
    returned: bool = False
    """Whether the call returned."""
    writes: Sequence[PendingWrite] = ()
    """The writes of tasks that the call stored, if it returned."""


class _Prepared(NamedTuple):
    """A step as the inner saver has prepared it, and what it was made of."""

    step: StepCommit
    inner: Any


class FaultySaver(BaseCheckpointSaver[Any]):
    """Passes calls on to another saver, with the faults that were asked for.

    Args:
        saver: Carries the calls out.
        *faults: What is to go wrong.

    Examples:
        >>> from milepost.checkpoint.memory import InMemorySaver
        >>> from milepost.errors import SaverError
        >>> from milepost.graph import START, StateGraph
        >>> from milepost.testing import FaultySaver, fail_before
        >>> saver = FaultySaver(InMemorySaver(), fail_before("commit", nth=2))
        >>> builder = StateGraph(dict).add_node("work", lambda state: {"n": 1})
        >>> graph = builder.add_edge(START, "work").compile(checkpointer=saver)
        >>> config = {"configurable": {"thread_id": "1"}}
        >>> try:
        ...     graph.invoke({}, config, durability="sync")
        ... except SaverError:
        ...     print(graph.invoke(None, config))  # goes on where it was
        {'n': 1}
    """

    instant = False
    """Storing is always left to the driver, so that both APIs can delay it."""

    def __new__(cls, saver: BaseCheckpointSaver[Any], *_faults: Fault) -> Self:
        return object.__new__(_class_for(cls, type(saver)))

    def __init__(self, saver: BaseCheckpointSaver[Any], *faults: Fault) -> None:
        super().__init__(serde=saver.serde)
        self.inner = saver
        self.calls: list[SaverCall] = []
        """All calls so far, in the order in which they began."""
        self.struck = False
        """Whether a call was made to fail."""
        self._faults = faults
        self._counts = [0] * len(faults)
        self._gone: Fault | None = None
        self._lock = threading.Lock()

    def acknowledged(self) -> list[PendingWrite]:
        """The writes of tasks that were stored by calls that returned."""
        return [write for call in self.calls for write in call.writes]

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.inner.get_next_version(current, channel)

    def prepare(self, step: StepCommit) -> Any:
        """What the inner saver makes of a step; only a StepSaver is asked to.

        Args:
            step: What is to be stored together.
        """
        assert isinstance(self.inner, StepSaver)
        return _Prepared(step, self.inner.prepare(step))

    def weight(self, step: Any) -> int:
        """The bytes of a prepared step, as the inner saver counts them.

        Args:
            step: What `prepare` returned.
        """
        assert isinstance(self.inner, StepSaver)
        return self.inner.weight(step.inner)

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):  # a copy is being made
            raise AttributeError(name)
        return getattr(self.inner, name)

    # -- what happens before and after a call, sync or async

    def _begin(
        self, method: str, arguments: tuple[Any, ...]
    ) -> tuple[SaverCall, list[Fault], float]:
        """Count a call; the faults that are due, and how many seconds they delay the call."""
        with self._lock:
            call = SaverCall(method, arguments)
            self.calls.append(call)
            if self._gone is not None:
                raise self._gone.error(f"{method} failed: the storage was made to be gone")
            due = []
            for at, fault in enumerate(self._faults):
                if not fault.methods or method in fault.methods:
                    self._counts[at] += 1
                    if fault.nth in (None, self._counts[at]):
                        due.append(fault)
            self._fail("before", due, f"{method} was made to fail before it was carried out")
        return call, due, sum(fault.seconds for fault in due)

    def _end(self, call: SaverCall, due: list[Fault], result: Any) -> None:
        with self._lock:
            self._fail("after", due, f"{call.method} was carried out and then made to fail")
            call.returned = True
            call.writes = _stored_writes(call, result)

    def _fail(self, when: str, due: list[Fault], message: str) -> None:
        for fault in due:
            if fault.when == when:
                self.struck = True
                if fault.lasting:
                    self._gone = fault
                raise fault.error(message)


def _stored_writes(call: SaverCall, result: Any) -> list[PendingWrite]:
    if call.method == "put_writes":
        _, writes, task_id, *_ = call.arguments
        return [(task_id, channel, value) for channel, value in writes]
    if call.method != "commit":
        return []
    return [
        (task.task_id, channel, value)
        for prepared, failure in zip(call.arguments[0], result, strict=True)
        if failure is None
        for task in prepared.step.writes
        for channel, value in task.writes
    ]


# -- classes that have what the wrapped saver has


F = TypeVar("F", bound=FaultySaver)


def _class_for(cls: type[F], inner: type[BaseCheckpointSaver[Any]]) -> type[F]:
    """A FaultySaver with the APIs and capabilities of a saver's class."""
    own: dict[str, Any] = {}
    for name in dir(inner):
        method = inspect.getattr_static(inner, name)
        if (
            not name.startswith("_")
            and name not in vars(FaultySaver)
            and inspect.isfunction(method)
            and method is not getattr(BaseCheckpointSaver, name, None)
        ):
            own[name] = _wrapper(name, method)
    bases = (cls, StepSaver) if issubclass(inner, StepSaver) else (cls,)
    made: type[F] = type(cls.__name__, bases, own)
    return made


def _wrapper(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    if name in ("list", "alist"):
        return _list if name == "list" else _alist
    if inspect.iscoroutinefunction(method):
        return _async_wrapper(name, name.removeprefix("a"))
    return _sync_wrapper(name)


def _sync_wrapper(method: str) -> Callable[..., Any]:
    def wrapper(self: FaultySaver, *arguments: Any, **keywords: Any) -> Any:
        call, due, seconds = self._begin(method, arguments)
        time.sleep(seconds)
        result = getattr(self.inner, method)(*map(_unwrapped, arguments), **keywords)
        self._end(call, due, result)
        return result

    return wrapper


def _async_wrapper(name: str, method: str) -> Callable[..., Any]:
    async def wrapper(self: FaultySaver, *arguments: Any, **keywords: Any) -> Any:
        call, due, seconds = self._begin(method, arguments)
        await asyncio.sleep(seconds)
        result = await getattr(self.inner, name)(*map(_unwrapped, arguments), **keywords)
        self._end(call, due, result)
        return result

    return wrapper


def _unwrapped(argument: Any) -> Any:
    """An argument as the inner saver knows it: a step is what that saver has prepared."""
    if isinstance(argument, list):
        return [_unwrapped(item) for item in argument]
    return argument.inner if isinstance(argument, _Prepared) else argument


def _list(self: FaultySaver, *arguments: Any, **keywords: Any) -> Iterator[Any]:
    call, due, seconds = self._begin("list", arguments)
    time.sleep(seconds)
    yield from self.inner.list(*arguments, **keywords)
    self._end(call, due, None)


async def _alist(self: FaultySaver, *arguments: Any, **keywords: Any) -> AsyncIterator[Any]:
    call, due, seconds = self._begin("list", arguments)
    await asyncio.sleep(seconds)
    async for found in self.inner.alist(*arguments, **keywords):
        yield found
    self._end(call, due, None)
