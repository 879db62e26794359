"""For every clause, a saver that is right but for one thing: the clause has to notice."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from milepost.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, empty_checkpoint
from milepost.checkpoint.memory import InMemorySaver
from milepost.checkpoint.sqlite import SqliteSaver
from milepost.errors import (
    BrokenChainError,
    CheckpointNotFoundError,
    MilepostError,
    ThreadConflict,
)
from milepost.testing._kit.clauses import ClauseFailed
from milepost.warnings import MilepostWarning


class Mutant(NamedTuple):
    """A broken saver, and the correct one that it was made from."""

    broken: Callable[[], Any]
    correct: Callable[[], Any] = InMemorySaver
    colour: Any = "sync"
    persistent: bool = False
    raises: type[Exception] = ClauseFailed
    """What the clause fails with."""


def change(method: Callable[..., Any], how: Callable[..., Any]) -> Callable[..., Any]:
    """A method that `how` answers for: it is given the saver, the right method, the arguments."""

    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        return how(self, partial(method, self), *args, **kwargs)

    return changed


def derived(base: type, changes: dict[str, Callable[..., Any]]) -> type:
    return type(
        f"Broken{base.__name__}",
        (base,),
        {name: change(getattr(base, name), how) for name, how in changes.items()},
    )


def memory(raises: type[Exception] = ClauseFailed, **changes: Callable[..., Any]) -> Mutant:
    """A saver in memory with some methods changed."""
    return Mutant(derived(InMemorySaver, changes), raises=raises)


def sqlite(**changes: Callable[..., Any]) -> Mutant:
    """A saver with a registry, with some methods changed."""
    broken = derived(SqliteSaver, changes)
    return Mutant(
        lambda: broken.from_conn_string(":memory:"),
        lambda: SqliteSaver.from_conn_string(":memory:"),
    )


class Five(BaseCheckpointSaver[str]):
    """The five methods and no more, in sync code only."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver()

    def put(self, *args: Any) -> Any:
        return self.inner.put(*args)

    def put_writes(self, *args: Any) -> None:
        self.inner.put_writes(*args)

    def get_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    def list(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.list(*args, **kwargs)

    def delete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.inner.get_next_version(current, channel)


def five(**changes: Any) -> Mutant:
    """A saver with the five methods, some of them changed."""
    return Mutant(derived(Five, changes), Five)


# -- what is done wrong


def where(config: Any, **other: Any) -> Any:
    """A config that points elsewhere."""
    return {"configurable": {**config["configurable"], **other}}


def without_id(config: Any) -> Any:
    return where(config, checkpoint_id=None)


def checkpoint_with(checkpoint: Any, **values: Any) -> Any:
    return {**checkpoint, **values}


def altered(**fields: Callable[[Any], Any]) -> Callable[..., Any]:
    """A reader whose answer has some fields changed."""

    def read(_: Any, original: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        if isinstance(found, Iterator):
            return iter([alter(one) for one in found])
        return found and alter(found)

    def alter(found: Any) -> Any:
        return found._replace(**{name: how(found) for name, how in fields.items()})

    return read


def listed(**options: Callable[[Any], Any]) -> Callable[..., Any]:
    """A `list` whose options are changed on the way."""

    def list_(_: Any, original: Any, config: Any, **kwargs: Any) -> Any:
        return original(config, **{**kwargs, **{k: how(kwargs) for k, how in options.items()}})

    return list_


def never(_: Any, __: Any, *args: Any, **kwargs: Any) -> None:
    """A method that does nothing."""


def lists_for_tuples(items: Any) -> Any:
    return [(k, list(v) if type(v) is tuple else v) for k, v in items]


class Repeats(InMemorySaver):
    """Stores a checkpoint again each time that it is put."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Counter[str] = Counter()

    def put(self, config: Any, checkpoint: Any, *args: Any) -> Any:
        self.times[checkpoint["id"]] += 1
        return super().put(config, checkpoint, *args)

    def list(self, *args: Any, **kwargs: Any) -> Any:
        for found in super().list(*args, **kwargs):
            yield from [found] * self.times[found.checkpoint["id"]]


class Holds(InMemorySaver):
    """Keeps the objects that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Any] = {}

    def put(self, config: Any, checkpoint: Any, *args: Any) -> Any:
        self.held[checkpoint["id"]] = checkpoint
        return super().put(config, checkpoint, *args)

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        return found and found._replace(checkpoint=self.held[found.checkpoint["id"]])


class Caches(InMemorySaver):
    """Gives every reader the same objects."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Any] = {}

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        return found and self.cache.setdefault(found.checkpoint["id"], found)


class Ghosts(InMemorySaver):
    """Keeps writes of checkpoints that were removed."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, list[Any]] = defaultdict(list)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        super().put_writes(config, writes, task_id, task_path)
        id = config["configurable"]["checkpoint_id"]
        self.kept[id] += [(task_id, *write) for write in writes]

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        return found and found._replace(pending_writes=self.kept[found.checkpoint["id"]])


class Overwrites(Ghosts):
    """Lets the later of two writes at a place win."""

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        if found is None:
            return None
        last = {write[:2]: write for write in found.pending_writes}
        return found._replace(pending_writes=list(last.values()))


class OncePerTask(InMemorySaver):
    """Takes the first call of `put_writes` for a task, and what is special in it, as the last."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Any] = set()

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        special = bool(writes) and writes[0][0] in WRITES_IDX_MAP
        place = (config["configurable"]["checkpoint_id"], task_id, special and writes[0][0])
        if place not in self.seen:
            self.seen.add(place)
            super().put_writes(config, writes, task_id, task_path)


def parents_writes(self: Any, get_tuple: Any, config: Any) -> Any:
    found = get_tuple(config)
    if found is None or found.parent_config is None:
        return found
    above = get_tuple(found.parent_config)
    return found._replace(pending_writes=[*above.pending_writes, *found.pending_writes])


def one_special(_: Any, put_writes: Any, config: Any, writes: Any, *args: Any) -> None:
    special = [write for write in writes if write[0] in WRITES_IDX_MAP]
    put_writes(config, [write for write in writes if write not in special[1:]], *args)


def no_special(_: Any, put_writes: Any, config: Any, writes: Any, *args: Any) -> None:
    put_writes(config, [write for write in writes if write[0] not in WRITES_IDX_MAP], *args)


def only_special(_: Any, put_writes: Any, config: Any, writes: Any, *args: Any) -> None:
    put_writes(config, [write for write in writes if write[0] in WRITES_IDX_MAP], *args)


def refuse_nothing(_: Any, put_writes: Any, config: Any, writes: Any, *args: Any) -> None:
    if not writes:
        raise LookupError("no writes")
    put_writes(config, writes, *args)


def delete_alike(self: Any, delete_thread: Any, thread_id: str) -> None:
    for found in [*self.list(None)]:
        other = found.config["configurable"]["thread_id"]
        if other.casefold() == thread_id.casefold():
            delete_thread(other)


def delete_known(self: Any, delete_thread: Any, thread_id: str) -> None:
    if not [*self.list({"configurable": {"thread_id": thread_id}})]:
        raise LookupError(thread_id)
    delete_thread(thread_id)


def not_on_a_loop(_: Any, put: Any, *args: Any) -> Any:
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise LookupError("an event loop is running here")
    return put(*args)


class SaysNothing(Five):
    """Has async methods that do nothing."""

    async def aget_tuple(self, config: Any) -> Any:
        raise NotImplementedError("use the sync methods")

    async def aput(self, *args: Any) -> None:
        pass


class OneThread(Five):
    """Works in the thread that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.current_thread()

    def get_tuple(self, config: Any) -> Any:
        if threading.current_thread() is not self.thread:
            raise LookupError("made in another thread")
        return super().get_tuple(config)


SHARED = InMemorySaver()


class Shared(Five):
    """A saver on a place that outlives it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = SHARED


class ForgetsDeletion(Shared):
    """Remembers which threads are deleted, instead of deleting them."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: set[str] = set()

    def get_tuple(self, config: Any) -> Any:
        gone = config["configurable"]["thread_id"] in self.deleted
        return None if gone else super().get_tuple(config)

    def delete_thread(self, thread_id: str) -> None:
        self.deleted.add(thread_id)


def persistent(broken: Callable[[], Any]) -> Mutant:
    return Mutant(broken, Shared, persistent=True)


def histories(how: Callable[[Any], Any]) -> Callable[..., Any]:
    """A `get_delta_channel_history` whose answer is changed."""
    return lambda _, original, **kwargs: how(original(**kwargs))


def empty_if(error: type[Exception]) -> Callable[..., Any]:
    """A `get_delta_channel_history` that takes what is gone for empty."""

    def history(_: Any, original: Any, *, config: Any, channels: Any) -> Any:
        try:
            return original(config=config, channels=channels)
        except error:
            return {channel: {"writes": []} for channel in channels}

    return history


def put_again(self: Any, found: Any, thread_id: str, *, writes: bool = True) -> None:
    config = where(found.parent_config or without_id(found.config), thread_id=thread_id)
    self.put(config, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
    here = where(found.config, thread_id=thread_id)
    for at, (task, channel, value) in enumerate(found.pending_writes if writes else ()):
        self.put_writes(here, [("unused", None)] * at + [(channel, value)], task)


def of_thread(self: Any, thread_id: str) -> list[Any]:
    return [*InMemorySaver.list(self, {"configurable": {"thread_id": thread_id}})]


def latest_of(self: Any, thread_id: str) -> list[Any]:
    latest: dict[str, Any] = {}
    for found in of_thread(self, thread_id):
        latest.setdefault(found.config["configurable"]["checkpoint_ns"], found)
    return list(latest.values())


def copy_the_latest(self: Any, _: Any, source: str, target: str) -> None:
    for found in latest_of(self, source):
        put_again(self, found, target)


class Aliases(InMemorySaver):
    """Takes a copied thread for the same thread under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.names[target_thread_id] = source_thread_id

    def put(self, config: Any, *args: Any) -> Any:
        return super().put(self._meant(config), *args)

    def get_tuple(self, config: Any) -> Any:
        return super().get_tuple(self._meant(config))

    def _meant(self, config: Any) -> Any:
        name = config["configurable"]["thread_id"]
        return where(config, thread_id=self.names.get(name, name))


def prune_all(self: Any, prune: Any, thread_ids: Any, **kwargs: Any) -> None:
    prune([found.config["configurable"]["thread_id"] for found in [*self.list(None)]], **kwargs)


def prune_somehow(_: Any, prune: Any, thread_ids: Any, strategy: str = "keep_latest") -> None:
    prune(thread_ids, strategy="delete" if strategy == "delete" else "keep_latest")


def prune_blindly(self: Any, _: Any, thread_ids: Any, strategy: str = "keep_latest") -> None:
    for thread_id in thread_ids:
        latest = latest_of(self, thread_id)
        self.delete_thread(thread_id)
        for found in latest:
            put_again(self, found, thread_id, writes=False)


def delete_runs_alike(self: Any, delete_for_runs: Any, run_ids: Any) -> None:
    runs = {str(found.metadata.get("run_id")) for found in [*self.list(None)]}
    delete_for_runs(
        [run for run in runs if run.startswith(tuple(id.rstrip("%") for id in run_ids))]
    )


def delete_runs_blindly(self: Any, _: Any, run_ids: Any) -> None:
    for thread_id in {found.config["configurable"]["thread_id"] for found in [*self.list(None)]}:
        left = [f for f in of_thread(self, thread_id) if f.metadata.get("run_id") not in run_ids]
        self.delete_thread(thread_id)
        for found in reversed(left):
            put_again(self, found, thread_id)


class Remembers(SqliteSaver):
    """A registry that never forgets a thread."""

    known: dict[str, Any] = {}

    def get_thread(self, thread_id: str) -> Any:
        info = super().get_thread(thread_id)
        if info is not None:
            self.known[thread_id] = info
        return self.known.get(thread_id)

    def set_thread_metadata(self, thread_id: str, metadata: Any) -> None:
        super().set_thread_metadata(thread_id, metadata)
        self.get_thread(thread_id)


def quietly(_: Any, set_thread_metadata: Any, *args: Any) -> None:
    with suppress(MilepostError):
        set_thread_metadata(*args)


def create_afresh(saver: Any, create: Any, thread_id: str, metadata: Any) -> Any:
    """Replaces what is said about the thread."""
    made = create(thread_id)
    saver.set_thread_metadata(thread_id, metadata)
    return made._replace(metadata=metadata)


def delete_if_begun(saver: Any, delete: Any, thread_id: str) -> None:
    if saver.get_thread(thread_id).head is not None:
        delete(thread_id)


def silent(_: Any, prepare: Any, step: Any) -> Any:
    """Forgets what the run says about its thread."""
    step.fence.thread_metadata = {}
    return prepare(step)


def pages(**options: Callable[[Any], Any]) -> Callable[..., Any]:
    """A `list_threads` whose options are changed on the way."""
    return lambda _, original, **kwargs: original(
        **{**kwargs, **{name: how(kwargs.get(name)) for name, how in options.items()}}
    )


def prepare_and_commit(self: Any, prepare: Any, step: Any) -> Any:
    self.commit([prepare(step)])
    return prepare(step)


def unfenced(_: Any, prepare: Any, step: Any) -> Any:
    step.fence.taken, step.fence.forced = False, True
    return prepare(step)


def strictly(_: Any, prepare: Any, step: Any) -> Any:
    step.fence.forced = False
    return prepare(step)


def writes_unclaimed(self: Any, prepare: Any, step: Any) -> Any:
    if step.new is None:
        # Under the token that the thread has, even if it belongs to another run.
        place = {
            "thread_id": step.thread_id,
            "checkpoint_ns": "",
            "checkpoint_id": step.checkpoint_id,
        }
        for task in step.writes:
            self.put_writes({"configurable": place}, task.writes, task.task_id, task.task_path)
        return None
    return prepare(step)


def all_or_none(_: Any, commit: Any, steps: Any) -> Any:
    outcome = commit(steps)
    failed = [error for error in outcome if error is not None]
    return [failed[0]] * len(steps) if failed else outcome


class Late(InMemorySaver):
    """Encodes when it stores."""

    def prepare(self, step: Any) -> Any:
        return step

    def commit(self, steps: Any) -> Any:
        return super().commit([InMemorySaver.prepare(self, step) for step in steps])


class HeldForEver(InMemorySaver):
    """Never takes a claim back."""

    def hold(self, thread_id: str, fence: Any) -> None:
        holder = self.__dict__.setdefault("holder", fence)
        if holder is not fence:
            raise ThreadConflict(thread_id)
        super().hold(thread_id, fence)


class OneValue(InMemorySaver):
    """Mixes up what threads have put."""

    last: Any = None

    def put(self, config: Any, checkpoint: Any, *args: Any) -> Any:
        self.last = checkpoint["channel_values"]
        return super().put(config, checkpoint, *args)

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        return found and found._replace(
            checkpoint=checkpoint_with(found.checkpoint, channel_values=self.last)
        )


class OnlyChild(InMemorySaver):
    """Drops the second child of a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.parents: set[str] = set()

    def put(self, config: Any, *args: Any) -> Any:
        parent = config["configurable"].get("checkpoint_id")
        if parent in self.parents:
            return config
        self.parents.add(parent)
        return super().put(config, *args)


def last_task(found: Any) -> Any:
    writes = found.pending_writes
    return [write for write in writes if write[0] == writes[-1][0]]


def known_checkpoints_only(self: Any, put_writes: Any, config: Any, *args: Any) -> None:
    if self.get_tuple(config) is not None:
        put_writes(config, *args)


class LastPut(InMemorySaver):
    """Takes what was put last for the latest."""

    last: Any = None

    def put(self, config: Any, *args: Any) -> Any:
        self.last = super().put(config, *args)
        return self.last

    def get_tuple(self, config: Any) -> Any:
        latest = not config["configurable"].get("checkpoint_id")
        return super().get_tuple(self.last if latest and self.last else config)


def in_two_halves(_: Any, put: Any, config: Any, checkpoint: Any, *args: Any) -> Any:
    values = {**checkpoint["channel_values"], "right": [-1]}
    put(config, checkpoint_with(checkpoint, channel_values=values), *args)
    time.sleep(0.005)
    return put(config, checkpoint, *args)


class OneAtATime(InMemorySaver):
    """Stores the steps of one thread only."""

    def __init__(self) -> None:
        super().__init__()
        self.thread: str | None = None

    def prepare(self, step: Any) -> Any:
        self.thread = self.thread or step.thread_id
        return super().prepare(step) if step.thread_id == self.thread else None

    def commit(self, steps: Any) -> Any:
        super().commit([step for step in steps if step is not None])
        return [None] * len(steps)


class Counts(InMemorySaver):
    """Writes down who reads."""

    reads = 0

    def list(self, *args: Any, **kwargs: Any) -> Any:
        self.reads += 1
        for found in super().list(*args, **kwargs):
            yield found._replace(metadata={**found.metadata, "reads": self.reads})


def keep(names: Any, given: Any) -> Any:
    return {name: value for name, value in given.items() if name in names}


MUTANTS: dict[str, Mutant] = {
    # put
    "put_returns_the_config_of_the_new_checkpoint": memory(
        put=lambda _, put, config, *args: (put(config, *args), config)[1]
    ),
    "a_checkpoint_comes_back_whole": memory(
        get_tuple=altered(checkpoint=lambda f: checkpoint_with(f.checkpoint, versions_seen={}))
    ),
    "values_come_back_exactly": memory(
        put=lambda _, put, config, checkpoint, *args: put(
            config,
            checkpoint_with(
                checkpoint,
                channel_values=dict(lists_for_tuples(checkpoint["channel_values"].items())),
            ),
            *args,
        )
    ),
    "metadata_is_stored_in_full": memory(
        put=lambda _, put, config, checkpoint, metadata, new: put(
            config, checkpoint, keep(("source", "step", "parents"), metadata), new
        )
    ),
    "the_parent_is_the_checkpoint_that_put_was_given": memory(
        put=lambda _, put, config, *args: put(without_id(config), *args)
    ),
    "channels_that_did_not_change_keep_their_values": memory(
        put=lambda _, put, config, checkpoint, metadata, new: put(
            config,
            checkpoint_with(
                checkpoint,
                channel_values=keep(new, checkpoint["channel_values"]),
                channel_versions=new,
            ),
            metadata,
            new,
        )
    ),
    "an_emptied_channel_has_no_value": memory(
        get_tuple=altered(
            checkpoint=lambda f: checkpoint_with(
                f.checkpoint,
                channel_values={
                    **dict.fromkeys(f.checkpoint["channel_versions"]),
                    **f.checkpoint["channel_values"],
                },
            )
        )
    ),
    "a_repeated_put_is_harmless": Mutant(Repeats),
    "what_was_given_can_be_changed_afterwards": Mutant(Holds),
    "versions_grow": memory(get_next_version=lambda _, __, current, channel: "1"),
    # get_tuple
    "without_an_id_the_latest_is_found": memory(
        get_tuple=lambda self, _, config: next(iter([*self.list(config)][::-1]), None)
    ),
    "an_id_finds_exactly_that_checkpoint": memory(
        get_tuple=lambda _, get_tuple, config: get_tuple(without_id(config))
    ),
    "what_is_not_there_is_none": memory(
        get_tuple=lambda _, get, config: get(config) or get(without_id(config))
    ),
    "reading_creates_nothing": memory(
        get_tuple=lambda self, get, config: (
            get(config) or (self.put(without_id(config), empty_checkpoint(), {}, {}), None)[1]
        )
    ),
    "namespaces_are_kept_apart": memory(
        put=lambda _, put, config, *args: put(where(config, checkpoint_ns=""), *args),
        get_tuple=lambda _, get, config: get(where(config, checkpoint_ns="")),
    ),
    "a_config_without_a_namespace_means_the_root": memory(
        get_tuple=lambda _, get, config: (
            get(config) if "checkpoint_ns" in config["configurable"] else None
        )
    ),
    "names_are_taken_literally": memory(
        put=lambda _, put, config, *args: put(
            where(config, checkpoint_ns=config["configurable"]["checkpoint_ns"].casefold()), *args
        ),
        get_tuple=lambda _, get, config: get(
            where(config, checkpoint_ns=config["configurable"].get("checkpoint_ns", "").casefold())
        ),
    ),
    "get_gives_the_bare_checkpoint": memory(get=lambda self, _, config: self.get_tuple(config)),
    "what_is_returned_can_be_changed": Mutant(Caches),
    # list
    "list_gives_the_newest_first": memory(
        list=lambda _, list_, *args, **kwargs: reversed([*list_(*args, **kwargs)])
    ),
    "list_gives_what_get_tuple_gives": memory(list=altered(pending_writes=lambda _: [])),
    "limit_bounds_a_listing": memory(list=listed(limit=lambda _: None)),
    "before_gives_older_ones_only": memory(list=listed(before=lambda _: None)),
    "filter_compares_metadata": memory(
        list=listed(filter=lambda k: k.get("filter") and dict([*k["filter"].items()][:1]))
    ),
    "filters_are_not_interpreted": memory(
        list=lambda _, list_, config, filter=None, **kwargs: (
            iter(()) if "." in "".join(filter or ()) else list_(config, filter=filter, **kwargs)
        )
    ),
    "filter_before_and_limit_work_together": memory(
        list=lambda _, list_, config, filter=None, limit=None, **kwargs: (
            found
            for found in [*list_(config, **kwargs)][:limit]
            if keep(filter or (), found.metadata) == (filter or {})
        )
    ),
    "list_with_an_id_gives_that_one": memory(
        list=lambda _, list_, config, **kwargs: list_(config and without_id(config), **kwargs)
    ),
    "list_without_a_config_covers_all_threads": memory(
        list=lambda _, list_, config, **kwargs: list_(config, **kwargs) if config else iter(())
    ),
    # put_writes
    "writes_belong_to_their_checkpoint": memory(get_tuple=parents_writes),
    "values_of_writes_come_back_exactly": memory(
        put_writes=lambda _, put, config, writes, *args: put(
            config, lists_for_tuples(writes), *args
        )
    ),
    "writes_of_a_task_keep_their_order": memory(
        put_writes=lambda _, put, config, writes, *args: put(config, sorted(writes), *args)
    ),
    "tasks_come_in_the_order_of_their_paths": memory(
        put_writes=lambda _, put, config, writes, task, path="": put(config, writes, task)
    ),
    "the_first_write_at_a_place_stays": Mutant(Overwrites),
    "later_places_are_added": Mutant(OncePerTask),
    "tasks_do_not_share_places": memory(
        put_writes=lambda _, put, config, writes, task, path="": put(config, writes, "task", path)
    ),
    "special_writes_are_replaced": Mutant(OncePerTask),
    "special_writes_have_places_of_their_own": memory(put_writes=one_special),
    "no_writes_are_no_error": memory(put_writes=refuse_nothing, raises=LookupError),
    # delete_thread
    "delete_thread_removes_all_of_it": memory(delete_thread=never),
    "delete_thread_leaves_the_others": memory(delete_thread=delete_alike),
    "deleting_what_is_not_there_is_no_error": memory(
        delete_thread=delete_known, raises=LookupError
    ),
    "a_deleted_thread_starts_anew": Mutant(Ghosts),
    # colours
    "methods_answer_at_once_in_awkward_places": memory(put=not_on_a_loop),
    "a_missing_colour_is_refused": Mutant(SaysNothing, Five, colour="async"),
    "a_graph_of_the_other_colour_runs_or_is_refused": Mutant(OneThread, Five, colour="async"),
    # persistence
    "what_was_stored_is_there_after_reopening": persistent(Five),
    "a_deleted_thread_stays_deleted_after_reopening": persistent(ForgetsDeletion),
    "a_paused_run_goes_on_after_reopening": persistent(Five)._replace(raises=MilepostWarning),
    # delta channels
    "a_history_is_the_writes_oldest_first": memory(
        get_delta_channel_history=histories(
            lambda found: {c: {**h, "writes": h["writes"][::-1]} for c, h in found.items()}
        )
    ),
    "writes_of_one_step_are_in_path_order": memory(
        put_writes=lambda _, put, config, writes, task, path="": put(config, writes, task)
    ),
    "a_history_ends_at_the_nearest_stored_value": memory(
        get_delta_channel_history=histories(
            lambda found: {c: {"writes": h["writes"]} for c, h in found.items()}
        )
    ),
    "a_channel_without_history_is_empty": memory(
        get_delta_channel_history=histories(
            lambda found: {c: h for c, h in found.items() if h["writes"]}
        )
    ),
    "branches_have_histories_of_their_own": memory(
        get_tuple=altered(metadata=lambda f: {**f.metadata, "source": "loop"})
    ),
    "a_broken_chain_is_an_error": memory(get_delta_channel_history=empty_if(BrokenChainError)),
    "a_deleted_checkpoint_has_no_history": memory(
        get_delta_channel_history=empty_if(CheckpointNotFoundError)
    ),
    "a_delta_channel_reads_like_a_plain_one": memory(
        get_delta_channel_history=histories(
            lambda found: {c: {**h, "writes": h["writes"][:1]} for c, h in found.items()}
        )
    ),
    # copy_thread
    "a_copy_has_the_whole_history": memory(copy_thread=copy_the_latest),
    "a_copy_is_independent": Mutant(Aliases),
    "a_copy_has_what_delta_channels_need": memory(
        copy_thread=copy_the_latest, raises=BrokenChainError
    ),
    # prune
    "prune_keeps_the_latest": memory(prune=never),
    "prune_can_delete_threads": memory(
        prune=lambda _, prune, thread_ids, strategy="": prune(thread_ids)
    ),
    "prune_leaves_other_threads": memory(prune=prune_all),
    "an_unknown_strategy_is_refused": memory(prune=prune_somehow),
    "prune_keeps_what_delta_channels_need": memory(prune=prune_blindly, raises=BrokenChainError),
    "a_pruned_run_can_be_resumed": memory(prune=prune_blindly),
    # delete_for_runs
    "delete_for_runs_removes_their_checkpoints": memory(delete_for_runs=never),
    "delete_for_runs_leaves_other_runs": memory(delete_for_runs=delete_runs_alike),
    "a_run_without_checkpoints_left_leaves_no_writes": Mutant(Ghosts),
    "delete_for_runs_keeps_what_delta_channels_need": memory(
        delete_for_runs=delete_runs_blindly, raises=BrokenChainError
    ),
    # registry
    "a_thread_is_known_from_its_first_checkpoint_on": sqlite(
        get_thread=altered(head=lambda _: None)
    ),
    "threads_are_found_by_their_metadata": sqlite(list_threads=pages(metadata=lambda _: None)),
    "a_prefix_is_taken_literally": sqlite(
        list_threads=pages(prefix=lambda prefix: prefix.rstrip("%_"))
    ),
    "pages_follow_each_other": sqlite(list_threads=pages(after=lambda _: None)),
    "the_status_says_how_a_thread_stands": sqlite(get_thread=altered(status=lambda _: "idle")),
    "a_deleted_thread_leaves_the_registry": sqlite()._replace(
        broken=lambda: Remembers.from_conn_string(":memory:")
    ),
    "metadata_of_an_unknown_thread_is_refused": sqlite(set_thread_metadata=quietly),
    "a_created_thread_is_known_and_has_no_checkpoint": sqlite(
        create_thread=lambda saver, create, thread_id, metadata: create(thread_id)
    ),
    "a_thread_that_is_created_again_keeps_what_it_has": sqlite(create_thread=create_afresh),
    "a_created_thread_is_deleted_like_any_other": sqlite(delete_thread=delete_if_begun),
    "the_first_commit_stores_what_the_run_says_of_its_thread": memory(prepare=silent),
    # steps
    "a_step_is_stored_in_one_go": memory(
        prepare=lambda _, prepare, step: prepare(replace(step, writes=()))
    ),
    "prepare_stores_nothing": memory(prepare=prepare_and_commit),
    "prepare_takes_a_copy": Mutant(Late),
    "what_cannot_be_stored_is_refused_by_prepare": Mutant(Late),
    "a_batch_is_stored_in_order": memory(
        commit=lambda _, commit, steps: commit(steps[-1:]) * len(steps)
    ),
    "a_bad_step_fails_alone": memory(commit=all_or_none),
    "the_first_commit_compares_the_head": memory(prepare=unfenced),
    "a_later_commit_needs_the_token": memory(prepare=unfenced),
    "writes_alone_take_the_thread": memory(
        prepare=writes_unclaimed,
        commit=lambda _, commit, steps: (
            commit([step for step in steps if step is not None]) or [None]
        ),
    ),
    "a_fork_on_purpose_takes_the_thread": memory(prepare=strictly),
    "a_deleted_thread_refuses_its_old_run": memory(prepare=unfenced),
    "the_head_is_the_latest_of_the_root": memory(head=lambda _, __, thread_id: None),
    "of_claims_at_once_one_wins": memory(prepare=unfenced),
    "a_claim_keeps_other_runs_out": memory(hold=never),
    "a_claim_is_given_back": Mutant(HeldForEver, raises=ThreadConflict),
    # concurrency
    "threads_at_once_do_not_disturb_each_other": Mutant(OneValue),
    "two_writers_of_one_thread_lose_nothing": Mutant(OnlyChild),
    "tasks_may_write_at_once": memory(
        get_tuple=altered(pending_writes=lambda f: f.pending_writes and last_task(f))
    ),
    "the_same_calls_at_once_are_stored_once": Mutant(Repeats),
    "writes_may_come_before_their_checkpoint": memory(put_writes=known_checkpoints_only),
    "checkpoints_may_come_in_any_order": Mutant(LastPut),
    "a_reader_sees_whole_checkpoints": memory(put=in_two_halves),
    "graphs_may_run_at_once": Mutant(OneAtATime),
    # crashes
    "a_run_survives_the_loss_of_a_save": five(put_writes=only_special),
    "a_run_survives_the_loss_of_an_acknowledgement": five(put_writes=only_special),
    "a_run_in_the_background_survives_the_loss_of_a_save": five(put_writes=no_special),
    "a_run_saved_at_exit_survives_the_loss_of_it": five(put_writes=no_special),
    "a_failed_read_changes_nothing": Mutant(Counts),
    "a_slow_saver_changes_nothing": five(put_writes=no_special),
}
