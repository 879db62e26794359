"""Carries out effects on a client, and repeats them on a new connection if one is lost."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from itertools import count
from typing import Any, Final

from milepost._db.calls import Pause, Steps
from milepost._db.redis.attempts import Attempts
from milepost._db.redis.commands import Effect, RunScript, Waited
from milepost._db.redis.errors import (
    client_errors,
    is_lost,
    is_moved,
    is_passing,
    outcome_unknown,
    translated,
)
from milepost._internal import log
from milepost.errors import ConnectionUnusableError

RETRY_SECONDS: Final = 20.0
"""An effect is repeated for so long: a server that restarts, or its successor, is ready by then."""
_FIRST_ATTEMPTS: Final = 4
"""Attempts before a server has answered for the first time: its address may be wrong."""
_BASE_PAUSE_SECONDS: Final = 0.025
"""Doubled with each attempt."""
_MAX_PAUSE_SECONDS: Final = 1.0


class Sender(Attempts):
    """One client, and the attempts to carry out effects on it."""

    def __init__(
        self, client: Any, *, owner: str, scripts: bool = True, retry_seconds: float | None = None
    ) -> None:
        super().__init__(client, owner=owner, scripts=scripts)
        self.retry_seconds = RETRY_SECONDS if retry_seconds is None else retry_seconds
        self.is_closed = False
        self._has_answered = False

    def send(self, effect: Effect) -> Steps[Any]:
        """Carry out an effect, and repeat it if the connection is lost."""
        if isinstance(effect, Pause):
            yield effect
            return None
        start = time.monotonic()
        for attempt in count(1):
            if self.is_closed:
                # The client would connect again, and no block would close that connection.
                raise ConnectionUnusableError(
                    f"{self.owner} is closed: the block of from_conn_string has ended. Use it "
                    "inside of the block, or make it from a client that stays open."
                )
            try:
                answer = yield from self.attempt(effect)
                self._has_answered = True
                return answer
            except client_errors() as error:
                pause = self._pause(effect, error, attempt, time.monotonic() - start)
            if pause:
                yield pause
            if self.is_cluster:
                with suppress(*client_errors()):
                    yield self.client.nodes_manager.initialize
        raise AssertionError

    def _pause(
        self, effect: Effect, error: BaseException, attempt: int, seconds: float
    ) -> Pause | None:
        """The pause before the next attempt, if any; raises if the effect is not to be repeated."""
        failure = self._failure(effect, error, attempt, seconds)
        if failure is not None:
            if attempt > 1:
                gave_up = "%s: an operation has failed for good in attempt %d, with %s."
                log.warning(log.STORAGE, gave_up, self._where(effect), attempt, error)
            raise failure from error
        # The second attempt follows at once: servers close idle connections.
        pause = min(_BASE_PAUSE_SECONDS * 2**attempt, _MAX_PAUSE_SECONDS) if attempt > 1 else 0.0
        if attempt.bit_count() == 1:  # attempts 1, 2, 4, …: an outage lasts for many attempts
            again = "%s: attempt %d has failed with %s; again in %.1f s."
            log.warning(log.STORAGE, again, self._where(effect), attempt, error, pause)
        return Pause(pause * random.uniform(0.75, 1.25)) if pause else None

    def _failure(
        self, effect: Effect, error: BaseException, attempt: int, seconds: float
    ) -> Exception | None:
        """What an attempt that is the last one has failed with; None if another one follows."""
        moved = self.is_cluster and is_moved(error)
        if not moved and not is_lost(error):
            return translated(error, self.owner)
        may_be_done = not moved and not is_passing(error)
        script = _script_in(effect)
        if may_be_done and script is not None and script.once:
            return outcome_unknown(error, self.owner)
        is_first = not self._has_answered
        if seconds >= self.retry_seconds or (is_first and attempt >= _FIRST_ATTEMPTS):
            if may_be_done and script is not None and script.writes:
                return outcome_unknown(error, self.owner)
            return translated(error, self.owner)
        return None

    def _where(self, effect: Effect) -> str:
        """Whose attempt it is, and on which thread, if that is known."""
        script = _script_in(effect)
        thread_id = None if script is None else script.thread_id
        return self.owner if thread_id is None else f"{self.owner}, thread '{thread_id}'"


def _script_in(effect: Effect) -> RunScript | None:
    """The script that an effect runs, if it runs one: only scripts have `once` and `writes`."""
    run = effect.run if isinstance(effect, Waited) else effect
    return run if isinstance(run, RunScript) else None
