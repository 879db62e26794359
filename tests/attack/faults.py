"""The harm that is done while workers work. Each fault is recorded like a call."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack.processes import Process


def kill(campaign: Any) -> None:
    """A process dies in the middle of something; another one takes its place."""
    process = campaign.some_worker()
    process.kill()
    campaign.replace(process)


def stop(campaign: Any) -> None:
    """A process stands still for a while, with whatever it holds."""
    process: Process = campaign.some_worker()
    process.signal(signal.SIGSTOP)
    try:
        time.sleep(campaign.random.choice((0.05, 0.3, 1.0)))
    finally:
        process.signal(signal.SIGCONT)


def clock(campaign: Any) -> None:
    """The clock of one process goes back or forth."""
    process: Process = campaign.some_worker()
    process.tell(f"clock {campaign.random.choice((-3600, -1, -0.01, 0, 5))}")


def full(campaign: Any) -> None:
    """No file of a process may grow for a moment."""
    process: Process = campaign.some_worker()
    size = max(
        (Path(campaign.address + end).stat().st_size for end in ("", "-wal") if
         Path(campaign.address + end).exists()),
        default=0,
    )  # fmt: skip
    process.tell(f"quota {max(1, size // campaign.random.choice((1, 2, 4)))}")
    time.sleep(campaign.random.choice((0.1, 0.4)))
    process.tell("quota 0")


def terminate(campaign: Any) -> None:
    """The server ends some of the connections."""
    campaign.place(campaign.address).end_connections(campaign.random)


def restart(campaign: Any) -> None:
    """The server stops at once and starts again."""
    campaign.server.stop()
    campaign.server.start()


FAULTS: dict[str, tuple[float, Callable[[Any], None]]] = {
    "kill": (3, kill),
    "stop": (3, stop),
    "clock": (2, clock),
    "full": (1, full),
    "terminate": (2, terminate),
    "restart": (0.3, restart),
}
"""How often, and what."""
