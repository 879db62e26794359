"""The runtime: how a graph is run. Public: Runtime, RunControl, ExecutionInfo, get_runtime.

The life of a super-step, by file:

    plan.py         which tasks run next
    task.py         one task: call the node, retry, follow its branches
    apply.py        its writes become the next state
    saving.py       the new checkpoint is handed to the saver
    session.py      the loop around these; yields effects, never waits
    effects.py      what it yields
    sync.py aio.py  the drivers, which carry the effects out; timeouts.py, and awaiting.py and
                    workers.py at the top of the package, are their ways to wait

A session is put together from parts, each a class that knows a little more than the one before:
checkpoints.py (where the run is in its thread), offering.py (what its tasks see), telling.py (what
its streams are told), loading.py (what is saved), opening.py (how it begins), session.py.
"""

from typing import TYPE_CHECKING

from milepost.on_demand import on_demand

if TYPE_CHECKING:
    from milepost.runtime.scope import ExecutionInfo, RunControl, Runtime, get_runtime
else:
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "ExecutionInfo": "milepost.runtime.scope",
            "RunControl": "milepost.runtime.scope",
            "Runtime": "milepost.runtime.scope",
            "get_runtime": "milepost.runtime.scope",
        },
    )

__all__ = ["ExecutionInfo", "RunControl", "Runtime", "get_runtime"]
