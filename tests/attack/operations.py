"""What workers do to threads: everything that a saver and a compiled graph offer.

Each call is recorded under the kind of its effect, which is all that the checks know of it:
`run`, `update`, `read`, `remove`, `copy`, `look` (changes nothing, and returns nothing to compare).
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from attack.graph import NODES, marked, told
from attack.operation import Ask, Context, Operation, Steps, ask, listing, pause, plain
from attack.programs import BY_HAND
from milepost.errors import EmptyInputError, GraphDrained, MilepostError, ThreadConflict
from milepost.runtime import RunControl
from milepost.types import Command, StateUpdate

DURABILITIES = ("sync", "async", "exit")
SIZES = (0, 0, 0, 0, 60, 300, 3_000, 40_000)


def config(thread_id: str, run: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"configurable": {"thread_id": thread_id}}
    return {**found, "run_id": run} if run else found


def id_of(found: Any) -> str:
    return str(found["configurable"]["checkpoint_id"])


def drawn_input(context: Context) -> tuple[str, dict[str, Any]]:
    """A token and an input, which also says what the run is to do."""
    rng, token = context.random, context.token()
    todo = {
        "parts": rng.choice((0, 0, 0, 2, 5)),
        "ask": rng.random() < 0.15,
        "inner": rng.choice((None, None, None, True, "ask")),
        "size": rng.choice(SIZES),
        "slow": rng.choice((0, 0, 0, 0.002, 0.01)),
    }
    return token, {**marked(token, rng.choice(SIZES)), "todo": todo}


def run(
    context: Context,
    thread_id: str,
    given: Any,
    token: str | None,
    *,
    at: Any = None,
    since: int | None = None,
    how: str = "invoke",
    graph: Any = None,
    **options: Any,
) -> Steps:
    """A run, from the head or from a checkpoint. Returns the result, None if it failed."""
    graph = graph or context.graph
    durability = options.pop("durability", None) or context.random.choice(DURABILITIES)
    name = f"{durability}:{context.token()}"
    arguments = {
        "thread": thread_id,
        "run": name,
        "durability": durability,
        "token": token,
        "how": how,
        "at": None if at is None else id_of(at),
        "since": since,
    }
    where = {**(at or config(thread_id)), "run_id": name}
    context.shared.setdefault("runs", []).append((thread_id, name))
    del context.shared["runs"][:-20]
    options["durability"] = durability
    try:
        with context.recorder.call("run", **arguments) as call:
            if how == "leave":
                most = context.random.randrange(1, 6)
                yield Ask(graph, "stream", (given, where), options, "leave", most)
            elif how == "cancel":
                after = context.random.random() * 0.05
                yield Ask(graph, "invoke", (given, where), options, "cancel", after=after)
            elif how == "watch":
                modes = ["checkpoints", "values"]
                parts = yield listing(graph, "stream", given, where, stream_mode=modes, **options)
                saved = [part for mode, part in parts if mode == "checkpoints"]
                states = [part for mode, part in parts if mode == "values"]
                call.result = told(states[-1]) if states else {}
                call.result["saved"] = [
                    [id_of(part["config"]), told(part["values"])] for part in saved
                ]
                return states[-1] if states else None
            else:
                found = yield ask(graph, "invoke", given, where, **options)
                call.result = told(found or {})
                return found
    except EmptyInputError:
        return None
    return None


# -- runs


def invoke(context: Context) -> Steps:
    token, given = drawn_input(context)
    yield from run(context, context.some_thread(), given, token)


def watch(context: Context) -> Steps:
    token, given = drawn_input(context)
    yield from run(context, context.some_thread(), given, token, how="watch")


def leave(context: Context) -> Steps:
    token, given = drawn_input(context)
    yield from run(context, context.some_thread(), given, token, how="leave")


def cancel(context: Context) -> Steps:
    token, given = drawn_input(context)
    yield from run(context, context.some_thread(), given, token, how="cancel")


def reject(context: Context) -> Steps:
    token, given = drawn_input(context)
    yield from run(context, context.some_thread(), given, token, on_conflict="reject")


def go_on(context: Context) -> Steps:
    yield from run(context, context.some_thread(), None, None)


def drain(context: Context) -> Steps:
    token, given = drawn_input(context)
    control = RunControl()
    timer = threading.Timer(context.random.random() * 0.02, control.request_drain)
    timer.start()
    try:
        yield from run(context, context.some_thread(), given, token, how="drain", control=control)
    except GraphDrained:
        yield from run(context, context.some_thread(), None, None)
    finally:
        timer.cancel()
        timer.join()


def answer(context: Context) -> Steps:
    thread_id = context.some_thread()
    since = time.monotonic_ns()
    state = yield from look_at(context, config(thread_id))
    if state is not None and state.interrupts:
        given = Command(resume={one.id: context.token() for one in state.interrupts})
        yield from run(context, thread_id, given, None, how="answer", since=since)


def batch(context: Context) -> Steps:
    """Two runs at once, on threads that nobody else has."""
    names = [f"b{context.token()}", f"b{context.token()}"]
    tokens, inputs = zip(*(drawn_input(context) for _ in names), strict=True)
    with context.recorder.call("look", how="batch", tokens=tokens):
        found = yield ask(context.graph, "batch", list(inputs), [config(name) for name in names])
    for name, result in zip(names, found, strict=True):
        state = yield from look_at(context, config(name))
        is_swept, is_ahead = not state.values, any(task.result for task in state.tasks)
        if not (is_swept or is_ahead) and told(state.values)["digest"] != told(result)["digest"]:
            context.recorder.note("wrong", what=f"batch left another state in {name}")
        yield from removing(context, name, "delete_thread", name)


# -- the past


def some_past(context: Context, thread_id: str) -> Steps:
    """One of the last checkpoints, and since when it is known to be there."""
    since = time.monotonic_ns()
    with context.recorder.call("read", thread=thread_id, how="history") as call:
        limit = context.random.choice((2, 5, 12))
        asked = listing(context.graph, "get_state_history", config(thread_id), limit=limit)
        states = yield asked
        call.result = [shown(state) for state in states]
    return (context.random.choice(states) if states else None), since


def shown(state: Any) -> list[Any]:
    """What a history records of a snapshot: namespace, id, and what its values are."""
    place = state.config["configurable"]
    return [place.get("checkpoint_ns", ""), place.get("checkpoint_id"), told(state.values)]


def latest(state: Any) -> list[Any]:
    """The same of a head that was asked for without its id: it shows what its tasks have done."""
    ns, id, values = shown(state)
    is_ahead = any(task.result for task in state.tasks)
    return [ns, id, {**values, "ahead": True} if is_ahead else values]


def replay(context: Context) -> Steps:
    thread_id = context.some_thread()
    state, since = yield from some_past(context, thread_id)
    if state is not None:
        yield from run(context, thread_id, None, None, at=state.config, since=since)


def fork(context: Context) -> Steps:
    thread_id = context.some_thread()
    state, since = yield from some_past(context, thread_id)
    if state is None:
        return
    if context.random.random() < 0.4:
        token, given = drawn_input(context)
        yield from run(context, thread_id, given, token, at=state.config, since=since)
        return
    found = yield from updating(context, thread_id, at=state.config, since=since)
    if found is not None:
        yield from run(context, thread_id, None, None, at=found, since=since)


def updating(context: Context, thread_id: str, *, at: Any = None, since: Any = None) -> Steps:
    token = context.token()
    name = f"update:{token}"
    where = {**(at or config(thread_id)), "run_id": name}
    as_node = context.random.choice(NODES)
    arguments = {"thread": thread_id, "token": token, "run": name, "since": since}
    arguments["at"] = None if at is None else id_of(at)
    values = marked(token, context.random.choice(SIZES))
    with context.recorder.call("update", **arguments) as call:
        if context.random.random() < 0.2:
            updates = [[StateUpdate(values, as_node)]]
            found = yield ask(context.graph, "bulk_update_state", where, updates)
        else:
            found = yield ask(context.graph, "update_state", where, values, as_node)
        call.result = id_of(found)
    return found


def update(context: Context) -> Steps:
    yield from updating(context, context.some_thread())


# -- reading


def look_at(context: Context, where: Any, **options: Any) -> Steps:
    thread_id = where["configurable"]["thread_id"]
    at = where["configurable"].get("checkpoint_id")
    with context.recorder.call("read", thread=thread_id, how="get_state", at=at) as call:
        state = yield ask(context.graph, "get_state", where, **options)
        call.result = [latest(state)] if state.config["configurable"].get("checkpoint_id") else []
    return state


def get_state(context: Context) -> Steps:
    inner = context.random.random() < 0.3
    yield from look_at(context, config(context.some_thread()), subgraphs=inner)


def look_back(context: Context) -> Steps:
    """A state by its id, some time after somebody was told that it is there."""
    thread_id = context.some_thread()
    state, since = yield from some_past(context, thread_id)
    if state is None:
        return
    yield pause(context.random.choice((0, 0.001, 0.01)))
    at = id_of(state.config)
    with context.recorder.call(
        "read", thread=thread_id, how="get_state", at=at, since=since
    ) as call:
        found = yield ask(context.graph, "get_state", state.config)
        call.result = [shown(found)]


def slow_history(context: Context) -> Steps:
    """A history that is read item by item while others go on."""
    thread_id = context.some_thread()
    with context.recorder.call("read", thread=thread_id, how="slow history") as call:
        call.result = []
        wait = context.random.choice((0.001, 0.005))
        asked = listing(context.graph, "get_state_history", config(thread_id))
        for state in (yield asked._replace(kind="slow", after=wait, most=40)):
            call.result.append(shown(state))


def raw(context: Context) -> Steps:
    """The saver's own reads."""
    thread_id, rng = context.some_thread(), context.random
    where = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    with context.recorder.call("look", thread=thread_id, how="raw"):
        found = yield ask(context.saver, rng.choice(("get_tuple", "get")), where)
        if found is not None and rng.random() < 0.5:
            asked = {"config": where, "channels": ["delta"]}
            yield ask(context.saver, "get_delta_channel_history", **asked)
        yield listing(context.saver, "list", where, limit=rng.choice((1, 5, 30)))


def registry(context: Context) -> Steps:
    thread_id = context.some_thread()
    with context.recorder.call("look", thread=thread_id, how="registry"):
        yield ask(context.saver, "get_thread", thread_id)
        yield ask(context.saver, "list_threads", limit=context.random.choice((1, 100)))
        yield ask(context.saver, "list_threads", metadata={"owner": "ann"}, status="idle")


def describe(context: Context) -> Steps:
    thread_id, owner = removable(context), context.random.choice(("ann", "bob", "eve"))
    with context.recorder.call("look", thread=thread_id, how="describe"):
        yield ask(context.saver, "set_thread_metadata", thread_id, {"owner": owner})


def create(context: Context) -> Steps:
    """A thread gets an owner, whether it is there or not, and perhaps in the middle of a run."""
    thread_id, owner = removable(context), context.random.choice(("ann", "bob", "eve"))
    with context.recorder.call("look", thread=thread_id, how="create"):
        info = yield ask(context.saver, "create_thread", thread_id, {"made by": owner})
        if info.metadata.get("made by") != owner:
            context.recorder.note("wrong", what=f"a created thread says {info.metadata}")


def inspect(context: Context) -> Steps:
    """What looks for damage. What it finds while others write is for quiet moments to judge."""
    thread_id = context.some_thread()
    with context.recorder.call("look", thread=thread_id, how="inspect"):
        if context.random.random() < 0.5:
            yield ask(context.saver, "verify", [thread_id])
        else:
            yield ask(context.saver, "salvage", thread_id)


# -- removing


def removable(context: Context) -> str:
    """Some threads are never removed, so that what is lost there has no excuse."""
    if context.random.random() < 0.3:
        return context.threads[0]
    return context.random.choice([id for id in context.threads if not id.startswith("k")])


def removing(context: Context, thread_id: Any, method: str, *arguments: Any, **options: Any) -> Any:
    """Remove something of a thread; if that is None, of those that the result tells."""
    recorded = {"thread": thread_id, "how": method, "options": options}
    target = context.saver
    if method == "delete_thread" and context.random.random() < 0.3:
        target = context.graph
    with context.recorder.call("remove", **recorded) as call:
        found = yield ask(target, method, *arguments, **options)
        call.result = None if found is None else sorted(found.threads)


def delete(context: Context) -> Steps:
    thread_id = removable(context)
    yield from removing(context, thread_id, "delete_thread", thread_id)


def reset(context: Context) -> Steps:
    """A thread is deleted and begins again, several times, as fast as it goes."""
    thread_id = removable(context)
    for _ in range(context.random.randrange(2, 7)):
        yield from removing(context, thread_id, "delete_thread", thread_id)
        token = context.token()
        with contextlib.suppress(ThreadConflict):
            yield from run(context, thread_id, marked(token, context.random.choice(SIZES)), token)


def erase(context: Context) -> Steps:
    rng = context.random
    way = rng.choice(("ids", "ids", "metadata", "prefix"))
    if way == "ids":
        thread_id = removable(context)
        yield from removing(context, thread_id, "erase", [thread_id], vacuum=rng.random() < 0.1)
    elif way == "metadata":
        yield from removing(context, None, "erase", metadata={"owner": "eve"}, vacuum=False)
    else:
        yield from removing(context, "c0", "erase", prefix="c0", vacuum=False)


def prune(context: Context) -> Steps:
    rng, thread_id = context.random, removable(context)
    options: dict[str, Any] = {"strategy": "delete"}
    if rng.random() < 0.85:
        options = {"keep": rng.choice((1, 1, 2, 5))}
        if rng.random() < 0.3:
            options["older_than"] = rng.choice((0.01, 0.5))
    if rng.random() < 0.1:
        options["dry_run"] = True
    yield from removing(context, thread_id, "prune", [thread_id], **options)


def delete_runs(context: Context) -> Steps:
    runs = [one for one in context.shared.get("runs", ()) if not one[0].startswith("k")]
    if runs:
        thread_id, name = context.random.choice(runs)
        yield from removing(context, thread_id, "delete_for_runs", [name])


def sweep(context: Context) -> Steps:
    dry = context.random.random() < 0.7
    ttl = context.random.choice((1.0, 3.0))
    yield from removing(context, None, "sweep", ttl=ttl, dry_run=dry)


def sweeper(context: Context) -> Steps:
    """In the background, for a moment. It finds nothing that old."""
    with context.recorder.call("look", how="sweeper"):
        future = yield plain(context.saver, "start_sweeper", ttl=86400.0, every=0.001)
        yield pause(0.005)
        yield plain(context.saver, "stop_sweeper")
        # Twins share a sweeper: that of another actor may be one that fails on purpose.
        if future.done() and not isinstance(future.exception(), ZeroDivisionError | None):
            raise future.exception()


def vacuum(context: Context) -> Steps:
    with context.recorder.call("look", how="vacuum"):
        yield ask(context.saver, "vacuum")


# -- copies


def copy(context: Context) -> Steps:
    """Onto a thread that others use too, if it is not there."""
    source, target = context.random.sample(context.threads, 2)
    with context.recorder.call("copy", thread=target, source=source, how="copy_thread"):
        yield ask(context.saver, "copy_thread", source, target)


def copy_aside(context: Context) -> Steps:
    """To an id that nobody else knows, and read there."""
    source, target = context.some_thread(), f"p{context.token()}"
    with context.recorder.call("copy", thread=target, source=source, how="copy_thread") as call:
        yield ask(context.saver, "copy_thread", source, target)
        call.result = yield from read_aside(context, target)
    yield from removing(context, target, "delete_thread", target)


def carry(context: Context) -> Steps:
    """Out as text, and in again under another id."""
    source, target = context.some_thread(), f"p{context.token()}"
    with context.recorder.call("copy", thread=target, source=source, how="dump") as call:
        lines = yield listing(context.saver, "dump", [source])
        asked = ask(context.saver, "load", alines(lines) if context.is_async else lines)
        yield asked._replace(options={"rename": {source: target}})
        call.result = yield from read_aside(context, target)
    yield from removing(context, target, "delete_thread", target)


async def alines(lines: list[str]) -> Any:
    for line in lines:
        yield line


def read_aside(context: Context, thread_id: str) -> Steps:
    """All checkpoints of a thread and what is wrong with it."""
    states = yield listing(context.graph, "get_state_history", config(thread_id))
    problems = []
    if hasattr(context.saver, "verify"):
        problems = yield ask(context.saver, "verify", [thread_id])
    return {
        "states": [shown(state) for state in states],
        "problems": [str(problem) for problem in problems],
    }


# -- savers


def reencrypt(context: Context) -> Steps:
    with context.recorder.call("look", how="reencrypt"):
        yield ask(context.saver, "reencrypt")


def open_another(context: Context) -> Steps:
    """A saver that comes and goes: it makes sure of its tables, writes and reads."""
    token, given = drawn_input(context)
    with context.place.saver() as saver:
        if hasattr(saver, "setup"):
            with context.recorder.call("look", how="setup"):
                yield plain(saver, "setup")
        graph = context.graph.copy(update={"checkpointer": saver})
        yield from run(context, context.some_thread(), given, token, graph=graph)


def share_engine(context: Context) -> Steps:
    """Another saver on the same connection."""
    token, given = drawn_input(context)
    other = context.saver.with_serde(context.saver.serde)
    graph = context.graph.copy(update={"checkpointer": other})
    yield from run(context, context.some_thread(), given, token, graph=graph)


def _saver(*names: str) -> tuple[str, ...]:
    return tuple(f"saver.{name}" for name in names)


_RUNS = ("graph.invoke", "saver.commit", "saver.prepare", "saver.hold", "saver.head")
_DATABASES = (
    "sqlite",
    "sqlite-encrypted",
    "postgres",
    "postgres-pool",
    "redis",
    "redis-no-scripts",
)

OPERATIONS = [
    Operation("invoke", invoke, _RUNS, 10),
    Operation("watch", watch, ("graph.stream",), 5),
    Operation("leave", leave, ("graph.stream",), 2),
    Operation("cancel", cancel, ("graph.invoke",), 2),
    Operation("reject", reject, ("graph.invoke", *_saver("hold", "release")), 2),
    Operation("go on", go_on, ("graph.invoke",), 2),
    Operation("drain", drain, ("graph.invoke",), 1),
    Operation("answer", answer, ("graph.invoke", "graph.get_state"), 4),
    Operation("batch", batch, ("graph.batch",), 0.5),
    Operation("replay", replay, ("graph.get_state_history",), 2),
    Operation("fork", fork, ("graph.update_state", "graph.bulk_update_state"), 3),
    Operation("update", update, ("graph.update_state", "graph.bulk_update_state"), 3),
    Operation("get state", get_state, ("graph.get_state",), 5),
    Operation("look back", look_back, ("graph.get_state",), 3),
    Operation("slow history", slow_history, ("graph.get_state_history",), 3),
    Operation("raw", raw, _saver("get", "get_tuple", "list", "get_delta_channel_history"), 2),
    Operation("registry", registry, _saver("get_thread", "list_threads"), 1),
    Operation("describe", describe, _saver("set_thread_metadata"), 1),
    Operation("create", create, _saver("create_thread"), 2),
    Operation("inspect", inspect, _saver("verify", "salvage"), 1, _DATABASES),
    Operation("delete", delete, ("graph.delete_thread", *_saver("delete_thread")), 4),
    Operation("reset", reset, ("saver.delete_thread", "graph.invoke"), 4),
    Operation("erase", erase, _saver("erase"), 1),
    Operation("prune", prune, _saver("prune"), 4),
    Operation("delete runs", delete_runs, _saver("delete_for_runs"), 2),
    Operation("sweep", sweep, _saver("sweep"), 0.5),
    Operation("sweeper", sweeper, _saver("start_sweeper", "stop_sweeper"), 0.3),
    Operation("vacuum", vacuum, _saver("vacuum"), 0.2),
    Operation("copy", copy, _saver("copy_thread"), 2),
    Operation("copy aside", copy_aside, _saver("copy_thread"), 5),
    Operation("carry", carry, _saver("dump", "load"), 1, _DATABASES),
    Operation("reencrypt", reencrypt, _saver("reencrypt"), 1, ("sqlite-encrypted",)),
    Operation("open another", open_another, _saver("setup", "from_conn_string"), 0.7),
    Operation("share engine", share_engine, _saver("with_serde"), 0.7),
]


# -- quiet moments


def tidy(context: Context) -> Steps:
    """Remove what has grown too long to be read whole at each quiet moment, and what was left."""
    for info in (yield ask(context.saver, "list_threads", limit=10_000)):
        thread_id = info.thread_id
        counted = yield ask(context.saver, "get_thread", thread_id)
        if thread_id not in context.threads or (counted and counted.checkpoints > MOST):
            yield from removing(context, thread_id, "delete_thread", thread_id)


MOST = 250
"""Checkpoints of a thread."""


def observe(context: Context) -> Steps:
    """All that is there, as a saver sees it that remembers nothing."""
    with (
        context.place.saver() as saver,
        contextlib.suppress(Exception),  # the checks judge it
        context.recorder.call("observe") as call,
    ):
        graph = context.graph.copy(update={"checkpointer": saver})
        found: dict[str, Any] = {"problems": [], "threads": {}, "errors": {}}
        call.result = found
        if hasattr(saver, "verify"):
            found["problems"] = [str(problem) for problem in (yield ask(saver, "verify"))]
        infos = yield ask(saver, "list_threads", limit=10_000)
        for info in infos:
            if info.thread_id.startswith(BY_HAND):
                continue
            try:
                found["threads"][info.thread_id] = yield from lineage(graph, info.thread_id)
            except MilepostError as error:
                found["errors"][info.thread_id] = f"{type(error).__name__}: {error}"


def lineage(graph: Any, thread_id: str) -> Steps:
    """Each checkpoint of a thread: what it is, where it comes from, and what it added."""
    states = yield listing(graph, "get_state_history", config(thread_id))
    logs = {id_of(state.config): state.values.get("log") or [] for state in states}
    found = []
    for state in states:
        parent = state.parent_config and id_of(state.parent_config)
        log, before = logs[id_of(state.config)], logs.get(parent)
        follows = before is not None and log[: len(before)] == before
        found.append(
            {
                "id": id_of(state.config),
                "parent": parent,
                "run": state.metadata.get("run_id"),
                "source": state.metadata.get("source"),
                "state": told(state.values),
                "tasks": [[task.id, task.name] for task in state.tasks],
                "added": None if before is None else log[len(before) :] if follows else "other",
            }
        )
    return found
