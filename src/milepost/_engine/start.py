"""The beginning of a run: load the thread, take the input or command, plan the first step."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from milepost._engine.context.config import recursion_limit
from milepost._engine.drivers.effects import EffectGenerator, LoadCheckpoint
from milepost._engine.loading import (
    apply_outside,
    find_saver,
    is_of_this_call,
    load_checkpoint,
    restore,
)
from milepost._engine.missing_nodes import NONE_MISSING, missing_inside
from milepost._engine.observers import TRACE, observed
from milepost._engine.position import Position, start_lineage
from milepost._engine.superstep.apply import apply_writes
from milepost._engine.superstep.pending_writes import (
    answered_before_failures,
    answers_in,
    command_writes,
    is_id,
    null_task_id,
    open_interrupts,
    own_questions,
    recall,
)
from milepost._engine.superstep.plan import Task, plan
from milepost._engine.superstep.program import ExternalWriter, Write
from milepost._internal.ids import LateId, interrupt_id
from milepost._internal.other_root import advice
from milepost.checkpoint._contract.records import (
    SENDS_ARE_A_CHANNEL,
    CheckpointTuple,
    Place,
    is_older,
    with_sends,
)
from milepost.checkpoint._contract.step_saver import TaskWrites
from milepost.constants import ANSWERS, BRANCH_TO, INPUT, JOIN, START, TRACED
from milepost.errors import (
    EmptyInputError,
    InvalidUpdateError,
    OutsideRunError,
    UnknownInterruptError,
)
from milepost.types import Command

if TYPE_CHECKING:
    from milepost._engine.checkpoint_writer import CheckpointWriter
    from milepost._engine.run import GraphRun
    from milepost._engine.streaming.events import EventStream
    from milepost._engine.superstep.program import ExecutableGraph


def open_run(run: GraphRun, input: Any) -> EffectGenerator[None]:
    """Load the thread and take the input, so that the first step can be planned."""
    position = run.position
    saver = find_saver(run.settings, position, run.checkpoints)
    saved: CheckpointTuple | None = None
    explicit = False
    if saver is not None:
        load = load_checkpoint(saver, run.settings, position, run.checkpoints)
        if run.observers:
            load = observed(
                run.observers,
                load,
                lambda o: o.load_begins(),
                lambda o, found, error: o.load_ends(None if found is None else found[0], error),
            )
        saved, explicit = yield from load
    elif position.parent is None:
        position.present = LateId()  # makes the task ids of two runs differ
    yield from open_channels(run, saved)
    run.stop = position.step + recursion_limit(run.resources.config) + 2

    if isinstance(input, Command):
        yield from _open_with_command(run, input, saved, explicit)
    elif input is None or _is_repeated(position, saved):
        yield from continue_run(run, saved, explicit)
    elif type(input).__name__ == "Command" and (hint := advice(input)):
        raise InvalidUpdateError(f"The input would be taken for data: {input!r}.{hint}")
    else:
        yield from take_input(run, input)


def open_channels(run: GraphRun, saved: CheckpointTuple | None) -> EffectGenerator[None]:
    """Give a run the channels as a checkpoint has them, or as they are at the beginning."""
    checkpoints = run.checkpoints
    if saved is None:
        run.channels = checkpoints.channels = run.program.open_channels(None)
        return
    assert checkpoints.thread is not None
    checkpoint, parent = saved.checkpoint, saved.parent_config
    if is_older(checkpoint["v"], SENDS_ARE_A_CHANNEL) and parent is not None:
        found = yield from LoadCheckpoint(checkpoints.thread.saver, parent)
        checkpoint = with_sends(checkpoint, (found and found.pending_writes) or ())
    run.channels = checkpoints.channels = run.program.open_channels(checkpoint)
    run.resources.previous = yield from restore(saved, run.position, checkpoints)


# -- with an input


def take_input(run: GraphRun, input: Any) -> EffectGenerator[None]:
    """A new input: tasks that were still waiting are dropped, and the graph starts over."""
    position, channels = run.position, run.channels
    dropped = drop_waiting(run) if position.stored_id else []
    channels.changed = apply_writes(
        run.program,
        channels,
        [*dropped, ExternalWriter(INPUT, (), run.program.writes_of_input(input))],
        run.checkpoints.next_version,
        is_step=bool(dropped),
    )
    position.step += 1
    start_lineage(position, channels, run.resources.config)
    with_next = _starts_without_user_code(run.program, run.events.stream)
    yield from run.checkpoints.save_checkpoint("input", with_next=with_next)


def drop_waiting(run: GraphRun, kept: Container[str] = ()) -> list[ExternalWriter]:
    """Writers that end the waiting tasks, with what these have written to the channels in `kept`.

    For nodes that the graph does not have, they mark what the nodes wait for as seen.
    """
    tasks = waiting_tasks(run)
    _check_results(run, [task for task in tasks if task.finished], kept)
    writers = [
        ExternalWriter(task.name, task.triggers, [w for w in task.writes if w[0] in kept])
        for task in tasks
    ]
    missing, run.checkpoints.missing = run.checkpoints.missing.missing, NONE_MISSING
    return writers + [ExternalWriter(node, channels, ()) for node, channels in missing.items()]


def _check_results(run: GraphRun, ended: Sequence[Task], kept: Container[str]) -> None:
    """Warn of results that are dropped with the step that waits, though the state shows them."""
    thread, position, keys = run.checkpoints.thread, run.position, run.program.keys
    lost = [t.name for t in ended if any(w[0] in keys and w[0] not in kept for w in t.writes)]
    # A fork from an older checkpoint drops nothing: the results are in what came after.
    is_head = thread is not None and position.checkpoint_id == thread.fence.head
    if not lost or not is_head or position.parent is not None:
        return
    names = ", ".join(f"'{name}'" for name in lost)
    run.program.strictness.check(
        ("dropped", *lost),
        lambda: InvalidUpdateError(
            f"Thread '{run.position.thread_id}' of graph '{run.program.name}' waits in a step in "
            f"which {names} has ended, and a new input starts over. Resume the thread first, with "
            "None or Command(resume=...), or write the results with update_state."
        ),
        f"What {names} returned is dropped.",
    )


def refuse_missing_nodes(run: GraphRun, *, starts_over: bool) -> EffectGenerator[None]:
    """Raise MissingNodeError if the thread waits for a node that the graph does not have.

    The outermost run looks into the graphs inside it too, unless these start over.
    """
    position, thread = run.position, run.checkpoints.thread
    if missing := run.checkpoints.missing:
        assert position.thread_id is not None
        raise missing.error(position.thread_id, run.program.name)
    if position.parent is not None or thread is None or (starts_over and not position.inner_starts):
        return
    if not any(node.subgraphs for node in run.program.nodes.values()):
        return
    place = Place(thread.thread_id, position.ns, position.checkpoint_id)
    tasks = waiting_tasks(run)
    error = yield from missing_inside(tasks, thread.saver, place, position.inner_starts)
    if error is not None:
        raise error


def _starts_without_user_code(program: ExecutableGraph, stream: EventStream) -> bool:
    """Whether the first step calls nothing of the user's, and checkpoints are not streamed."""
    start = program.nodes.get(START)
    return (
        start is not None
        and not start.branches
        and program.triggers.get(START) == (START,)
        and stream.wanted.isdisjoint(("checkpoints", "debug"))
    )


# -- from a stored checkpoint


def continue_run(
    run: GraphRun, saved: CheckpointTuple | None, explicit: bool
) -> EffectGenerator[None]:
    """Continue from the loaded checkpoint: a resume, a retry, or, if the caller named the
    checkpoint, a replay."""
    if saved is None:
        raise EmptyInputError(
            f"Graph '{run.program.name}' was started without input, and "
            + (
                "it has no checkpointer to go on from."
                if run.checkpoints.thread is None
                else f"thread '{run.position.thread_id}' has nothing saved to go on from."
            )
            + " Pass an input."
        )
    forks = (explicit and not _is_fresh_fork(run)) or run.position.loaded_ns is not None
    yield from refuse_missing_nodes(run, starts_over=forks)
    run.resumed = True
    if forks:
        yield from _fork(run)
    else:
        tasks = _recall_step(run)
        run.show_checkpoint()
        _try_failed_again(tasks)
    run.show_values()


def _is_repeated(position: Position, saved: CheckpointTuple | None) -> bool:
    """Whether an earlier attempt of the enclosing task has already begun this inner run."""
    if position.parent is None or saved is None:
        return False
    return position.loaded_ns is not None or is_of_this_call(position, saved)


def _is_fresh_fork(run: GraphRun) -> bool:
    """Whether the loaded checkpoint is the head, an update or a fork, and no run has used it yet.

    Its replay needs no further fork: `invoke(None, update_state(...))` is common.
    """
    assert run.checkpoints.thread is not None
    return (
        run.position.checkpoint_id == run.checkpoints.thread.fence.head
        and not run.checkpoints.pending
        and run.checkpoints.metadata.get("source") in ("update", "fork")
    )


def _fork(run: GraphRun) -> EffectGenerator[None]:
    """Start a new line of history at the loaded checkpoint, without its pending writes."""
    position, channels = run.position, run.channels
    unite_waiting_edges(run)
    run.checkpoints.pending = ()
    former_ns = position.ns if position.loaded_ns is None else position.loaded_ns
    position.forked = (position.present, former_ns, position.step + 1)
    if position.loaded_ns is not None and position.loaded_ns != position.ns:
        # Namespaces share no stored values: every channel is stored again in this one.
        position.stored_id = None
        channels.dirty |= set(channels.versions) & set(run.program.channels)
    position.loaded_ns = None
    position.step += 1
    channels.changed = None
    start_lineage(position, channels, run.resources.config)
    yield from run.checkpoints.save_checkpoint("fork")


def unite_waiting_edges(run: GraphRun) -> None:
    """Give all edges that wait one version, for a checkpoint that is made without a step.

    Those that an update or a Command to the paused thread has made are newer than the others. A
    later graph with other names would take an older edge for what is left of an earlier graph.
    """
    channels = run.channels
    for name in chain.from_iterable(task.triggers for task in waiting_tasks(run)):
        is_edge = name.startswith((BRANCH_TO, JOIN)) and channels.available(name)
        if is_edge and channels.versions[name] != channels.top:
            channels.versions[name] = channels.top
            channels.dirty.add(name)


def _recall_step(run: GraphRun) -> list[Task]:
    """Plan the next step again, with the tasks and answers that an earlier attempt has stored."""
    run.planned = tasks = waiting_tasks(run, run.stop)
    run.is_retry = True
    if run.position.parent is None:  # an inner graph shares the answers of its run
        run.answers = answers_in(run.checkpoints.pending)
        for task in tasks if run.answers else ():
            if task.error is not None:
                # The task failed because the answer did not fit: the interrupt is open again.
                for interrupt in task.interrupts:
                    run.answers.pop(interrupt.id, None)
    return tasks


def _try_failed_again(tasks: Sequence[Task]) -> None:
    """Clear the errors of failed tasks, so that the tasks run again."""
    for task in tasks:
        if not task.finished and task.error is not None:
            task.error = None
            task.failed = True


def waiting_tasks(run: GraphRun, stop: int | None = None) -> list[Task]:
    """The tasks of the next step with their stored outcomes; with inputs if `stop` is given."""
    tasks = plan(run.program, run.channels, run.position.task_base(), None, stop)
    recall(tasks, run.checkpoints.pending)
    return tasks


# -- with a command


def _open_with_command(
    run: GraphRun, command: Command[Any], saved: CheckpointTuple | None, explicit: bool
) -> EffectGenerator[None]:
    thread, position = run.checkpoints.thread, run.position
    if command.resume is not None and thread is None:
        raise OutsideRunError(
            "Command(resume=...) needs a checkpointer: without one there is nothing saved to "
            "resume. Compile the graph with one."
        )
    writes = command_writes(run.program, command)
    if saved is None:
        yield from _start_with_command(run, command, writes)
        return
    assert thread is not None
    past = explicit and position.checkpoint_id != thread.fence.head
    yield from refuse_missing_nodes(run, starts_over=past)
    if past:
        # Checked before the fork is stored: a wrong answer leaves no fork behind.
        before = waiting_tasks(run)
        asked = chosen_answers(run, command.resume, *_questions_of_fork(before))
        yield from _fork(run)
    if writes:
        apply_outside(run.checkpoints, writes)
    tasks = _recall_step(run)
    if past:
        given = _answers_for_fork(before, tasks, asked)
    else:
        opened = open_interrupts(tasks)
        left = [id for id in opened if id not in run.answers]
        again = answered_before_failures(tasks)
        next_to_answer = left or opened or again or _asked_after_update(run, tasks)
        given = chosen_answers(run, command.resume, [*opened, *again], next_to_answer)
    run.answers = {**run.answers, **given}
    # Also if no answer fits: tasks without an answer keep waiting, and are not run again.
    run.has_answers = run.has_answers or command.resume is not None
    yield from _store_command(run.checkpoints, [*writes, (ANSWERS, given)] if given else writes)
    run.resumed = True
    if not past:
        run.show_checkpoint()
    _try_failed_again(tasks)
    run.show_values()


def _start_with_command(
    run: GraphRun, command: Command[Any], writes: Sequence[Write]
) -> EffectGenerator[None]:
    """Start a thread that has no checkpoint with a command."""
    if command.resume is not None:
        run.program.strictness.check(
            "resume of a new thread",
            lambda: EmptyInputError(
                f"Thread '{run.position.thread_id}' has nothing saved to resume: start it with "
                "input."
            ),
            "It is started without one, and the answer is dropped.",
        )
    if not any(channel in run.program.planning_channels for channel, _ in writes):
        yield from take_input(run, command.update)
        return
    run.position.step = -1
    run.channels.changed = apply_outside(run.checkpoints, writes)
    start_lineage(run.position, run.channels, run.resources.config)
    yield from run.checkpoints.save_checkpoint("input")


def _store_command(checkpoints: CheckpointWriter, writes: Sequence[Write]) -> EffectGenerator[None]:
    """Store a command's writes and answers before any task runs: the caller is not asked again
    if a node fails or the process dies."""
    if not writes:
        return
    if (trace := checkpoints.given_metadata.get(TRACE)) is not None:
        # The run may pause in this step again, without a checkpoint that has its trace.
        writes = [*writes, (TRACED, trace)]
    owner = null_task_id(checkpoints.pending)
    checkpoints.pending = [*checkpoints.pending, *((owner, name, value) for name, value in writes)]
    yield from checkpoints.save_writes([TaskWrites(owner, "", INPUT, writes)])


# -- answers


def chosen_answers(
    run: GraphRun, resume: Any, opened: Sequence[str], next_to_answer: Sequence[str]
) -> dict[str, Any]:
    """Interrupt id → answer, from the value of `Command(resume=...)`."""
    if resume is None:
        return {}
    thread_id, strictness = run.position.thread_id, run.program.strictness
    if isinstance(resume, dict) and resume and all(key in opened or is_id(key) for key in resume):
        # Ids that are not open are skipped: the caller may have read an older state.
        answers = {id: answer for id, answer in resume.items() if id in opened}
        if not answers:
            strictness.check(
                ("answers", thread_id),
                lambda: UnknownInterruptError(
                    f"No interrupt of thread '{thread_id}' that is open has one of these ids: "
                    f"{', '.join(resume)}. Open are: {', '.join(opened) or 'none'}.",
                    reason="not_pending",
                    interrupt_ids=list(resume),
                    pending_ids=opened,
                ),
                "Nothing is answered.",
            )
        return answers
    if not next_to_answer:
        was_updated = run.planned and run.checkpoints.metadata.get("source") == "update"
        why = " after its update: what waits asks again, about the new state" if was_updated else ""
        strictness.check(
            ("answer", thread_id),
            lambda: UnknownInterruptError(
                f"Thread '{thread_id}' has no open interrupt{why}.", reason="not_pending"
            ),
            "The answer is dropped.",
        )
    if len(next_to_answer) <= 1:
        return dict.fromkeys(next_to_answer, resume)
    raise UnknownInterruptError(
        f"Thread '{thread_id}' has {len(next_to_answer)} open interrupts, so one value is "
        "not enough. Answer by id: Command(resume={id: answer, ...}). The open ids are: "
        f"{', '.join(next_to_answer)}.",
        reason="ambiguous",
        pending_ids=next_to_answer,
    )


def _asked_after_update(run: GraphRun, tasks: Sequence[Task]) -> list[str]:
    """After an update, the first question of the only task that waits: the task asks it in this
    run, and a caller that has edited the state before answering has answered it.

    Not of a graph inside: its tasks, and so their questions, have no ids yet.
    """
    waiting = [task for task in tasks if not task.finished]
    if run.checkpoints.metadata.get("source") != "update" or len(waiting) != 1:
        return []
    return [] if waiting[0].node.subgraphs else [interrupt_id(waiting[0].ns, 0)]


def _questions_of_fork(tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """Ids of the interrupts that a fork raises again: all of them, and the first of each task."""
    asked = [own_questions(task) for task in tasks]
    return list(chain.from_iterable(asked)), [next(iter(own)) for own in asked if own]


def _answers_for_fork(
    before: Sequence[Task], tasks: Sequence[Task], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Answers by the fork's interrupt ids, from answers by the ids before the fork."""
    by_path = {_present_path(task): task for task in tasks}
    return {
        interrupt_id(by_path[path].ns, at): given[id]
        for old in before
        if (path := _present_path(old)) in by_path
        for id, at in own_questions(old).items()
        if id in given
    }


def _present_path(task: Task) -> tuple[Any, ...]:
    """The path of a task under the present name of its node: a fork does not keep the former."""
    return task.path if task.is_sent else task.node.path
