"""Runs on stored threads: fork, answer, resume, run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost._internal.ids import checkpoint_id
from milepost.checkpoint._contract.records import (
    Checkpoint,
    CheckpointMetadata,
    Place,
    now,
    place_of,
)
from milepost.checkpoint._contract.step_saver import Fence, NewCheckpoint, StepCommit
from milepost.inspect._errors import InspectError, StateNotFoundError, told_plainly
from milepost.inspect._graphs import attached, is_langgraph, records_of, refusing
from milepost.inspect._reading import is_internal
from milepost.inspect._refs import Ref, resolve
from milepost.inspect._tasks import step_at
from milepost.inspect._threads import show

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from milepost.inspect._database import Database
    from milepost.types import RunnableConfig


class RunEvent(NamedTuple):
    """Something that happens in a run, as `stream` tells it.

    Examples:
        >>> events = list(inspect.run(db, graph, "other", {"n": 0}))
        >>> [event.data for event in events if event.mode == "updates"][-1]
        {'count': {'n': 2}}
    """

    mode: str
    """The stream mode."""
    namespace: Sequence[str]
    """The graph that it comes from."""
    data: Any
    """The payload of the event, as data."""


def fork(
    db: Database,
    ref: Ref,
    values: Mapping[str, Any],
    *,
    graph: Any = None,
    as_node: str | None = None,
) -> Ref:
    """A new checkpoint after another one in which some keys are different; the original stays.

    Args:
        db: The database.
        ref: The checkpoint before.
        values: Keys and their new values.
        graph: The compiled graph: the values go through its reducers, as in `update_state`. Without
            one the keys are set to the values, and what was to run next still is.
        as_node: The node that counts as the writer.

    Raises:
        ThreadConflict: A run has the thread, or another fork is being made.

    Examples:
        >>> ref = inspect.fork(db, Ref.parse("trip@~1"), {"city": "Rome"})
        >>> inspect.show(db, ref).values
        {'city': 'Rome', 'n': 0}
    """
    db.check_writable("fork")
    saved = resolve(db, ref)
    place = place_of(saved.config)
    if graph is not None:
        graph = attached(graph, db)
        made = graph.update_state(saved.config, dict(values), as_node, **refusing(graph))
        return Ref(*place_of(made))
    if as_node is not None:
        raise InspectError("A node can be named (--as-node) only with its graph (--graph).")
    # Through the reader, which has the manifest of what it has just read: so only what changes is
    # encoded, and values of classes that are not known here stay as they are stored.
    saver, fence = db.reader, Fence(None)
    with told_plainly(f"thread '{place.thread_id}'"):
        saver.hold(place.thread_id, fence)
        try:
            return _set(db, place, values, fence)
        except BaseException:
            saver.release(place.thread_id, fence, fence.before or "")
            raise
        finally:
            fence.ended = True


def _set(db: Database, place: Place, values: Mapping[str, Any], fence: Fence) -> Ref:
    saved = db.reader.get_tuple(place.config())
    before: Checkpoint = saved.checkpoint
    versions = dict(before["channel_versions"])
    known = [name for name in versions if not is_internal(name)]
    for key in values:
        if key not in known:
            raise StateNotFoundError(
                f"The state has no key '{key}': it has {', '.join(sorted(known))}. A key that was "
                "never written is known only to the graph: give it with --graph."
            )
    top = max(versions.values(), key=str) if versions else None
    version = db.reader.get_next_version(top, None)
    after = Checkpoint(
        v=before["v"],
        id=checkpoint_id(before["id"], db.reader.head(place.thread_id)),
        ts=now(),
        channel_values={**before["channel_values"], **values},
        channel_versions={**versions, **dict.fromkeys(values, version)},
        versions_seen=before["versions_seen"],
        updated_channels=sorted(values),
    )
    metadata: CheckpointMetadata = {
        "source": "fork",
        "step": saved.metadata.get("step", -1) + 1,
        "parents": saved.metadata.get("parents", {}),
    }
    new = NewCheckpoint.of(after, metadata, dict(values), after["channel_values"].copy)
    status = fence.before or "idle"
    if not place.checkpoint_ns:
        status = "interrupted" if step_at(db, saved).tasks() else "idle"
    step = StepCommit(*place, (), new, fence, status)
    for error in db.reader.commit([db.reader.prepare(step)]):
        if error is not None:
            raise error
    return Ref(place.thread_id, place.checkpoint_ns, after["id"])


def answer(
    db: Database, graph: Any, thread_id: str, value: Any, *, interrupt_id: str | None = None
) -> Iterator[RunEvent]:
    """Answer what a thread asks, and let it go on; what happens then.

    Args:
        db: The database.
        graph: The compiled graph.
        thread_id: The thread.
        value: The answer.
        interrupt_id: The question, or the beginning of its id; not needed if there is one. After
            an update the only node that waits has asked nothing yet: an answer without an id is for
            what it asks first.

    Examples:
        >>> from milepost.types import interrupt
        >>> asking = StateGraph(State).add_node("ask", lambda state: {"city": interrupt("Where?")})
        >>> asking = asking.set_entry_point("ask").compile(checkpointer=saver)
        >>> _ = asking.invoke({}, {"configurable": {"thread_id": "asks"}})
        >>> _ = list(inspect.answer(db, asking, "asks", "Rome"))
        >>> inspect.show(db, Ref.parse("asks")).values
        {'city': 'Rome'}
    """
    db.check_writable("answer")
    view = show(db, Ref(thread_id), limit=1_000)
    questions = [one.id for one in view.interrupts]
    make = import_module(records_of(graph)).Command
    place = Place(thread_id, "", None).config()
    if not questions:
        was_updated = view.metadata.get("source") == "update"
        if interrupt_id is None and was_updated and len(view.tasks) == 1:
            return _events(db, graph, make(resume=value), place)
        waits = f" What waits has not asked yet: {', '.join(view.next)}. `milepost resume` runs it."
        raise StateNotFoundError(f"Thread '{thread_id}' asks nothing.{waits if view.next else ''}")
    given = [id for id in questions if interrupt_id is None or id.startswith(interrupt_id)]
    if len(given) != 1:
        reason = (
            f"'{interrupt_id}' is none, or not only one, of them" if interrupt_id else "say which"
        )
        raise StateNotFoundError(
            f"Thread '{thread_id}' asks {len(questions)} questions: {reason}. They are "
            f"{', '.join(questions)}."
        )
    return _events(db, graph, make(resume={given[0]: value}), place)


def resume(db: Database, graph: Any, ref: Ref) -> Iterator[RunEvent]:
    """Go on where a thread stopped; from an older checkpoint, replay what came after it.

    Args:
        db: The database.
        graph: The compiled graph.
        ref: The checkpoint.

    Examples:
        >>> _ = list(inspect.resume(db, graph, Ref.parse("trip@~1")))
        >>> len(list(inspect.log(db, "trip"))) > 4  # the replay is a branch of its own
        True
    """
    db.check_writable("resume")
    config = resolve(db, ref).config
    if ref.at is None and not ref.back:
        config = Place(ref.thread_id, ref.namespace, None).config()
    return _events(db, graph, None, config)


def run(db: Database, graph: Any, thread_id: str, input: Any) -> Iterator[RunEvent]:
    """Give a thread an input; what happens then.

    Args:
        db: The database.
        graph: The compiled graph.
        thread_id: The thread.
        input: The input.

    Examples:
        >>> _ = list(inspect.run(db, graph, "other", {"n": 0}))
        >>> inspect.show(db, Ref.parse("other")).values
        {'city': 'Paris', 'n': 2}
    """
    db.check_writable("run")
    return _events(db, graph, input, Place(thread_id, "", None).config())


def _events(db: Database, graph: Any, input: Any, config: RunnableConfig) -> Iterator[RunEvent]:
    """The events of a run. On an event loop, where sync and async nodes both run."""
    import asyncio  # only here: it takes longer to import than most commands to run

    graph = attached(graph, db)
    stream: AsyncIterator[Any] = graph.astream(
        input, config, stream_mode=["updates", "messages", "custom"], subgraphs=True
    )
    try:
        with asyncio.Runner() as runner:
            while True:
                try:
                    namespace, mode, data = runner.run(_next(stream))
                except StopAsyncIteration:
                    return
                yield RunEvent(mode, namespace, data)
    finally:
        settle(db, graph, place_of(config).thread_id)


def settle(db: Database, graph: Any, thread_id: str) -> None:
    """Say in the registry how a run has ended, if the graph is LangGraph's.

    Such a run ends without a word: one that stops before or after a node leaves a checkpoint from
    which it could as well go on. A thread that another run has taken meanwhile stays as it is.

    Args:
        db: The database.
        graph: The compiled graph.
        thread_id: The thread.

    Examples:
        >>> from milepost.inspect.parts import settle
        >>> settle(db, graph, "trip")  # nothing to do: the graph is milepost's
    """
    if not is_langgraph(graph):
        return
    row = db.source.thread_entry(thread_id)
    if row is None or row.status != "running" or row.head is None:
        return
    state = graph.get_state(Place(thread_id, "", None).config())
    saver: Any = db.saver
    status = "interrupted" if state.next else "idle"
    step = StepCommit(thread_id, "", row.head, (), None, Fence(row.head), status)
    saver.commit([saver.prepare(step)])


async def _next(stream: AsyncIterator[Any]) -> Any:
    return await anext(stream)
