"""Operations that need no thread of others: small programs that once hung, lost or mixed up things."""

from __future__ import annotations

import asyncio
import copy
import time
from typing import Any

from attack.operation import Context, Operation, Steps, ask
from milepost.checkpoint.base import empty_checkpoint
from milepost.func import entrypoint, task

# -- tasks that are cancelled


@task
async def slow(name: str) -> str:
    await asyncio.sleep(0.005)
    return name


@task
async def endless(name: str) -> str:
    await asyncio.sleep(3600)
    return name


@task
def quick(name: str) -> str:
    time.sleep(0.001)
    return name


async def by_timeout() -> str:
    try:
        return await asyncio.wait_for(endless("late"), 0.002)
    except TimeoutError:
        return await slow("after a timeout")


async def by_hand() -> str:
    future = endless("never")
    await asyncio.sleep(0)
    future.cancel()
    try:
        return await future
    except asyncio.CancelledError:
        return await slow("after a cancellation")


async def by_sibling() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_await(endless("left")))
            group.create_task(_failing())
    except ExceptionGroup:
        return await slow("after a group")
    return "not reached"


async def by_first() -> str:
    futures = [slow("first"), endless("second")]
    done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for future in pending:
        future.cancel()
    return " ".join(future.result() for future in done)


async def _await(future: Any) -> Any:
    return await future


async def _failing() -> None:
    raise ValueError("of a sibling")


CANCELLED = {
    by_timeout: "after a timeout",
    by_hand: "after a cancellation",
    by_sibling: "after a group",
    by_first: "first",
}


def cancelled_tasks(context: Context) -> Steps:
    """However the tasks of a function are cancelled, its run goes on and ends."""
    name = f"p{context.token()}"
    where = {"configurable": {"thread_id": name}}
    if context.is_async:
        body = context.random.choice([*CANCELLED])

        @entrypoint(checkpointer=context.saver)
        async def program(_: Any) -> str:
            return await body()

        expected = CANCELLED[body]
    else:

        @entrypoint(checkpointer=context.saver)
        def program(_: Any) -> str:  # type: ignore[misc]
            futures = [quick(str(at)) for at in range(3)]
            futures[-1].cancel()
            return " ".join(future.result() for future in futures[:-1])

        expected = "0 1"
    with context.recorder.call("look", how="tasks", body=expected):
        found = yield ask(program, "invoke", "go", where)
    if found != expected:
        context.recorder.note("wrong", what=f"a program returned {found!r}, not {expected!r}")
    yield ask(context.saver, "delete_thread", name)


# -- a foreign runtime

BY_HAND = "h"
"""How the ids of threads begin whose states no graph has made."""


def put_by_hand(context: Context) -> Steps:
    """Checkpoints that come through `put`, as another library's runtime stores them."""
    name, saver = f"{BY_HAND}{context.token()}", context.saver
    where: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
    version, expected = None, {}
    with context.recorder.call("look", how="put"):
        for step in range(context.random.randrange(1, 6)):
            version = saver.get_next_version(version, None)
            values = {"log": [str(at) for at in range(step)], "text": context.token() * 40}
            checkpoint = {
                **empty_checkpoint(),
                "channel_values": values,
                "channel_versions": dict.fromkeys(values, version),
            }
            metadata = {"source": "loop", "step": step}
            versions = dict.fromkeys(values, version)
            where = yield ask(saver, "put", where, copy.deepcopy(checkpoint), metadata, versions)
            yield ask(saver, "put_writes", where, [("text", str(step))], f"task{step}")
            expected[checkpoint["id"]] = (values, [(f"task{step}", "text", str(step))])
        for id, (values, writes) in expected.items():
            at = {"configurable": {**where["configurable"], "checkpoint_id": id}}
            found = yield ask(saver, "get_tuple", at)
            if found is None:
                return  # swept
            got = (found.checkpoint["channel_values"], found.pending_writes)
            if (dict(got[0]), [tuple(write) for write in got[1]]) != (values, writes):
                context.recorder.note("wrong", what=f"{id} was put as {values}, {writes}: {got}")
    yield ask(saver, "delete_thread", name)


OPERATIONS = [
    Operation("tasks", cancelled_tasks, ("saver.commit",), 2),
    Operation("put", put_by_hand, ("saver.put", "saver.put_writes", "saver.get_tuple"), 1),
]
