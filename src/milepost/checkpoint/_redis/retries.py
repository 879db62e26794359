"""What is done again when a server does not answer: everything may be sent twice.

A write that was done is known by its rev, and not done again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from milepost._internal import log
from milepost.checkpoint._redis.scripts import WRITE
from milepost.checkpoint._redis.server import Commands, Watched, explained

if TYPE_CHECKING:
    from milepost.checkpoint._redis.server import Effect
    from milepost.checkpoint._redis.settings import Settings

PATIENCE: Final = 20.0
"""Seconds that a server may take to be restarted, or a cluster to find another primary."""
_LOST: Final = {"ConnectionError", "TimeoutError"}
_REFUSED: Final = {"AuthenticationError", "AuthorizationError", "MaxConnectionsError"}
"""Those among them that another attempt does not help."""
_MOVED: Final = {
    "MovedError",
    "AskError",
    "TryAgainError",
    "ClusterDownError",
    "SlotNotCoveredError",
}


class Retries:
    """The attempts at one effect."""

    def __init__(self, settings: Settings, effect: Effect, *, is_cluster: bool) -> None:
        self._settings = settings
        self._effect = effect
        self._again = _LOST | _MOVED if is_cluster else _LOST
        self._attempts = 0
        self._until = time.monotonic() + PATIENCE

    def pause(self, error: Exception) -> float:
        """How long to wait before another attempt; raises if there is to be none."""
        self._attempts += 1
        names = _names(error)
        # A server that has never answered is most likely not there.
        hopeful = self._settings.is_ready and time.monotonic() < self._until
        if not hopeful or not names & self._again or names & _REFUSED:
            raise explained(error, write=_writes(self._effect)) from error
        if self._attempts & (self._attempts - 1) == 0:
            told = "Redis: attempt %d has failed with %s; again in %.1f s."
            pause = self._pause()
            log.warning(log.STORAGE, told, self._attempts, type(error).__name__, pause)
        return self._pause()

    def _pause(self) -> float:
        return float(min(0.02 * 2**self._attempts, 1.0))


def is_answer(error: Exception) -> bool:
    """Whether the server has answered with an error, and another attempt would not help."""
    names = _names(error)
    return "ResponseError" in names and not names & _MOVED


def _names(error: Exception) -> set[str]:
    """Clients of both names have the same classes."""
    return {kind.__name__ for kind in type(error).__mro__}


def _writes(effect: Effect) -> bool:
    """Whether it is unknown what an effect has done if the connection is lost."""
    if isinstance(effect, Watched):
        return True
    if isinstance(effect, Commands) and effect.commands:
        name, *rest = effect.commands[0]
        return name in ("EVALSHA", "EVAL") and rest[0] in (WRITE.sha, WRITE.text)
    return False
