"""What must hold of threads, checked from a recorded history.

A round goes from one quiet moment to the next: nobody acts, and all that is there is read. What was
there at the first of them is there at the second, unless somebody has removed it meanwhile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from attack.explained import is_explained
from attack.history import Event, Span, spans
from attack.violations import Violation

ONE_VALUE = "a checkpoint id has one value for ever, for everybody"
WHOLE = "a state is read whole or not at all"
THERE = "what was acknowledged is there until somebody removes it"
FOLLOWS = "a state follows from its parent by what its tasks wrote"
GONE = "a deleted thread is gone whole"
COPY = "a copy equals its source at one moment"
ALONE = "no run goes on beside another that took its thread"
SOUND = "verify() is empty at every quiet moment, and all can be read"
TYPED = "an error is typed, and something that others did explains it"

WRITERS = ("run", "update")
KINDS = (*WRITERS, "read", "remove", "copy", "look", "observe", "fault")
"""Calls that these checks judge; a history may have others too."""


class Round:
    """The events of a round, brought into order."""

    def __init__(self, events: list[Event], carried: list[Span]) -> None:
        self.spans = [*carried, *spans(events)]
        """With those of processes that were killed before: they may still hold a lease."""
        self.notes = [event for event in events if event.phase == "note"]
        self.nodes = [event for event in self.notes if event.operation == "node"]
        self.faults = [span for span in self.spans if span.operation == "fault"]
        self.by_thread: dict[str | None, list[Span]] = defaultdict(list)
        for span in self.spans:
            self.by_thread[span.arguments.get("thread")].append(span)

    def of_thread(self, thread_id: str | None) -> list[Span]:
        """Also what was done to threads in general."""
        return [*self.by_thread[thread_id], *self.by_thread[None]]

    def removals(self, thread_id: str | None) -> list[Span]:
        return [span for span in self.of_thread(thread_id) if may_remove(span, thread_id)]

    def deletions(self, thread_id: str | None) -> list[Span]:
        """Calls that have removed a thread as a whole."""
        return [span for span in self.by_thread[thread_id] if span.is_ok and deletes(span)]

    def writers(self, thread_id: str) -> list[Span]:
        return [
            span for span in self.by_thread[thread_id] if span.is_ok and span.operation in WRITERS
        ]

    def removed_since(self, thread_id: str | None, at: float) -> bool:
        """Whether anything of a thread may have been removed after a time."""
        return any(span.stop >= at for span in self.removals(thread_id))


class Checks:
    """Lives as long as the attack, and remembers what later rounds have to agree with."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self._values: dict[str, tuple[str, Any]] = {}
        """Of every checkpoint that anybody has read: its digest, and who said so."""
        self._tasks: dict[str, tuple[str, str] | None] = {}
        """Token → the task that wrote it, and its run; None if it came from outside."""
        self._before: dict[str, list[Any]] = {}
        """Thread → its checkpoints at the quiet moment before."""
        self._carried: list[Span] = []

    def violations(self, events: list[Event]) -> Iterator[Violation]:
        now = Round(events, self._carried)
        seen = [span for span in now.spans if span.operation == "observe" and span.is_ok]
        observed = seen[-1].result if seen else None
        self._learn(now)
        yield from self._errors(now)
        yield from self._wrong(now)
        yield from self._one_value(now, observed)
        yield from self._copies(now)
        yield from self._gone(now, observed)
        if observed is not None:
            yield from self._sound(observed)
            yield from self._follows(observed)
            yield from self._alone(observed)
            yield from self._there(now, observed)
            self._before = observed["threads"]
        self._carried = [span for span in now.spans if span.end is None]

    def _learn(self, now: Round) -> None:
        for event in now.nodes:
            told = event.arguments
            self._tasks[told["token"]] = (told["task"], told["run"])
        for span in now.spans:
            tokens = [span.arguments.get("token"), *span.arguments.get("tokens", ())]
            self._tasks |= dict.fromkeys((token for token in tokens if token), None)

    # -- calls

    def _errors(self, now: Round) -> Iterator[Violation]:
        for span in now.spans:
            if span.error is not None and span.operation in KINDS:
                self.made[TYPED] += 1
                if (why := is_explained(span, now)) is not None:
                    assert span.end is not None
                    assert span.end.error is not None
                    kind, text = span.end.error
                    what = f"{span.operation} {span.arguments}: {kind}: {text}\n  ({why})"
                    yield Violation(TYPED, what, (span.begin, span.end))

    def _wrong(self, now: Round) -> Iterator[Violation]:
        for event in now.notes:
            if event.operation == "wrong":
                promise = event.arguments.get("promise", WHOLE)
                yield Violation(promise, event.arguments["what"], (event,))

    # -- values

    def _one_value(self, now: Round, observed: Any) -> Iterator[Violation]:
        for id, state, who in readings(now, observed):
            self.made[WHOLE] += 1
            if why := state.get("torn"):
                yield Violation(WHOLE, f"{who} read {id}, in which {why}")
                continue
            if state.get("ahead"):
                continue
            self.made[ONE_VALUE] += 1
            known, first = self._values.setdefault(id, (state["digest"], who))
            if known != state["digest"]:
                yield Violation(
                    ONE_VALUE, f"{id} was {known} to {first}, {state['digest']} to {who}"
                )

    def _copies(self, now: Round) -> Iterator[Violation]:
        for span in now.spans:
            if span.operation != "copy" or not span.is_ok or span.result is None:
                continue
            self.made[COPY] += 1
            source = span.arguments["source"]
            events = tuple(event for event in span[:2] if event is not None)
            if problems := span.result["problems"]:
                yield Violation(COPY, f"of {source}, verify() says {problems[:3]}", events)
            copied = {id for _, id, _ in span.result["states"]}
            swept = now.removals(span.arguments["thread"])
            if now.removals(source) or any(one.overlaps(span.start, span.stop) for one in swept):
                continue
            # What was acknowledged before the copy began, or before something that the copy has.
            later = [one.start for one in now.writers(source) if acknowledged(one) & copied]
            missing = self._known_before(now, source, max(span.start, *later, 0)) - copied
            if missing:
                yield Violation(COPY, f"of {source} lacks {sorted(missing)[:5]}", events)

    def _known_before(self, now: Round, thread_id: str, at: float) -> set[str]:
        """Ids that a thread had for certain at a time, if nothing was removed."""
        known = {one["id"] for one in self._before.get(thread_id, ())}
        for span in now.writers(thread_id):
            if span.stop < at:
                known |= acknowledged(span)
        return known

    def _gone(self, now: Round, observed: Any) -> Iterator[Violation]:
        """What was there before a thread was deleted is seen by nobody who asks afterwards."""
        for thread_id in set(now.by_thread) - {None}:
            deletions = now.deletions(thread_id)
            copies = [one for one in now.by_thread[thread_id] if one.operation == "copy"]
            if not deletions:
                continue
            seen = [(span, ids_seen(span)) for span in now.by_thread[thread_id]]
            for deletion in deletions:
                if any(copy.stop >= deletion.start for copy in copies):
                    continue  # the ids may have come back
                self.made[GONE] += 1
                known = {one["id"] for one in self._before.get(thread_id, ())}
                known.update(*(ids for span, ids in seen if span.stop < deletion.start))
                after = {id for span, ids in seen if span.start > deletion.stop for id in ids}
                if observed is not None:
                    after |= {one["id"] for one in observed["threads"].get(thread_id, ())}
                if known & after:
                    what = f"{sorted(known & after)[:3]} of {thread_id} were seen again"
                    events = tuple(event for event in deletion[:2] if event is not None)
                    yield Violation(GONE, what, events)

    # -- what is there in the end

    def _sound(self, observed: Any) -> Iterator[Violation]:
        self.made[SOUND] += 1 + len(observed["threads"])
        for problem in observed["problems"][:5]:
            yield Violation(SOUND, problem)
        for thread_id, error in observed["errors"].items():
            yield Violation(SOUND, f"{thread_id} cannot be read: {error}")

    def _follows(self, observed: Any) -> Iterator[Violation]:
        for thread_id, found in observed["threads"].items():
            by_id = {one["id"]: one for one in found}
            for one in found:
                if one["added"] is None:
                    continue
                self.made[FOLLOWS] += 1
                parent = by_id[one["parent"]]
                if why := self._does_not_follow(one, parent):
                    what = f"{one['id']} of {thread_id}, after {one['parent']}: {why}"
                    yield Violation(FOLLOWS, what)

    def _does_not_follow(self, one: Any, parent: Any) -> str | None:
        if one["added"] == "other":
            return "the log does not begin with the parent's"
        if unknown := [token for token in one["added"] if token not in self._tasks]:
            return f"nobody wrote {unknown}"
        if one["source"] != "loop":
            return None
        written = [by for token in one["added"] if (by := self._tasks[token]) is not None]
        expected = [id for id, name in parent["tasks"] if name not in ("inside", "__start__")]
        if (one["run"] or "").startswith("exit:"):  # several steps in one
            strange = [by for by in written if by[1] != one["run"] and by[0] not in expected]
            return f"{strange} wrote, which is another run" if strange else None
        wrote = [task for task, _ in written]
        if sorted(wrote) != sorted(expected):
            return f"the tasks {expected} were to write, {wrote} did"
        return None

    def _alone(self, observed: Any) -> Iterator[Violation]:
        """Checkpoints of a run stand together: once another has the thread, it stores no more."""
        for thread_id, found in observed["threads"].items():
            self.made[ALONE] += 1
            runs = [one["run"] for one in sorted(found, key=lambda one: one["id"])]
            ended: set[str] = set()
            for before, run in pairwise(runs):
                if before == run:
                    continue
                ended.add(before)
                if run in ended:
                    what = f"in {thread_id}, {before} took the thread from {run}, which went on"
                    yield Violation(ALONE, what)

    def _there(self, now: Round, observed: Any) -> Iterator[Violation]:
        ran = {event.arguments["thread"] for event in now.nodes}
        for thread_id in (set(self._before) | set(now.by_thread) | ran) - {None}:
            if thread_id in observed["errors"]:
                continue
            found = observed["threads"].get(thread_id, [])
            ids = {one["id"] for one in found}
            digests = {one["state"]["digest"] for one in found}
            for id in (one["id"] for one in self._before.get(thread_id, ())):
                self.made[THERE] += 1
                if id not in ids and not now.removed_since(thread_id, 0):
                    yield Violation(THERE, f"{id} of {thread_id}, there at the quiet moment before")
            for span in now.writers(thread_id):
                if now.removed_since(thread_id, span.start):
                    continue
                self.made[THERE] += 1
                if lost := sorted(acknowledged(span) - ids):
                    yield self._lost(thread_id, span, f"the checkpoints {lost}")
                elif returned(span) not in (None, *digests):
                    yield self._lost(thread_id, span, "the state that was returned")
            yield from self._stored_steps(now, thread_id, ids)

    def _lost(self, thread_id: str, span: Span, what: str) -> Violation:
        assert span.end is not None
        run = span.arguments["run"]
        return Violation(THERE, f"{what} of {run} in {thread_id}", (span.begin, span.end))

    def _stored_steps(self, now: Round, thread_id: str, ids: set[str]) -> Iterator[Violation]:
        """Under `sync` a node runs when the checkpoint before it is stored, come what may."""
        for event in now.nodes:
            told = event.arguments
            if told["thread"] != thread_id or not (told["run"] or "").startswith("sync:"):
                continue
            if told["seen"] is None or now.removed_since(thread_id, 0):
                continue
            self.made[THERE] += 1
            if told["checkpoint"] not in ids:
                what = f"{told['checkpoint']}, on which {told['node']} of {told['run']} ran"
                yield Violation(THERE, f"{what}, in {thread_id}", (event,))


def may_remove(span: Span, thread_id: str | None) -> bool:
    """Whether a call may have removed anything of a thread."""
    if span.operation != "remove" or span.arguments["options"].get("dry_run"):
        return False
    is_named = span.arguments["thread"] is not None or not span.is_ok
    return is_named or thread_id in span.result


def deletes(span: Span) -> bool:
    """Whether a call was to remove the thread that it names as a whole."""
    if span.operation != "remove" or span.arguments["options"].get("dry_run"):
        return False
    how, strategy = span.arguments["how"], span.arguments["options"].get("strategy")
    return how in ("delete_thread", "erase") or strategy == "delete"


def ids_seen(span: Span) -> set[str]:
    """Ids of checkpoints that a call has seen in the thread that it names."""
    if span.operation == "read":
        return {id for ns, id, _ in span.result or () if not ns}
    return acknowledged(span) if span.is_ok else set()


def acknowledged(span: Span) -> set[str]:
    """Ids of checkpoints that a call has said are stored."""
    if span.operation == "update":
        return {span.result}
    if span.operation == "run" and span.result and span.arguments["durability"] != "exit":
        return {id for id, _ in span.result.get("saved", ())}
    return set()


def returned(span: Span) -> str | None:
    """The digest of the state that a run has returned."""
    return (span.result or {}).get("digest") if span.operation == "run" else None


def readings(now: Round, observed: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every value of a checkpoint that anybody has seen: id, state, and who saw it."""
    for event in now.nodes:
        told = event.arguments
        if told["seen"] is None:
            continue
        # Under `exit` a node is told the last checkpoint that is stored, not what it builds on.
        is_there = told["checkpoint"] and not (told["run"] or "").startswith("exit:")
        id = told["checkpoint"] if is_there else f"the input of {told['token']}"
        yield id, told["seen"], f"{told['node']} of {told['run']}"
    for span in now.spans:
        who = f"{span.operation} {span.arguments.get('how', '')} of {span.begin.worker}"
        if span.operation == "read":
            for ns, id, state in span.result or ():
                if not ns:
                    yield id, state, who
        elif span.operation == "copy" and span.result:
            for _, id, state in span.result["states"]:
                yield id, state, who
        elif span.operation == "run" and span.result:
            for id, state in span.result.get("saved", ()):
                yield id, state, who
            if "torn" in span.result:
                yield "the result", span.result, f"{who} {span.arguments}"
    for thread_id, found in (observed or {"threads": {}})["threads"].items():
        for one in found:
            yield one["id"], one["state"], f"the observer of {thread_id}"
