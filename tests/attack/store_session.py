"""The stores of one worker: one for each embedding model that it has used, opened when needed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from attack.operation import Context
from attack.store_model import FIRST_MODEL, MODELS


class Session:
    """A program's view of the store: which model it uses now, and what it has read."""

    def __init__(
        self, place: Any, stack: ExitStack, async_stack: AsyncExitStack, tick: float
    ) -> None:
        self.place = place
        self._tick = tick
        self.model = FIRST_MODEL
        """What searches and puts use: all threads of a program change it together."""
        self.versions: dict[str, int] = {}
        """The version of each item when it was last read here, for puts with a version."""
        self.last: dict[str, str] = {}
        """The token of each item when it was last there."""
        self.tokens: deque[str] = deque(maxlen=50)
        """What was put of late, to ask for by its meaning."""
        self._stack = stack
        self._stores: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._async_stack = async_stack
        self._async_stores: dict[str, Any] = {}
        self._async_lock = asyncio.Lock()

    def clock(self) -> float:
        """What stores are given for a clock. It may stand still between two ticks."""
        now = clock()
        return now - now % self._tick if self._tick else now

    def open(self, model: str) -> Any:
        """The threads' store with this model, which may be open already."""
        with self._lock:
            if model not in self._stores:
                opened = self.place.store(**settings(self.place, model, self.clock))
                self._stores[model] = self._stack.enter_context(opened)
            return self._stores[model]

    async def aopen(self, model: str) -> Any:
        """The loop's store with this model."""
        async with self._async_lock:
            if model not in self._async_stores:
                opened = self.place.async_store(**settings(self.place, model, self.clock))
                self._async_stores[model] = await self._async_stack.enter_async_context(opened)
            return self._async_stores[model]

    def remember(self, read: dict[str, Any], view: dict[str, Any]) -> None:
        """Keep the versions that a read has found."""
        for item in read.get("items", ()):
            self.versions[item] = 0
        if read["scope"] != "namespaces":
            self.versions.update({item: version for item, (_, version, _) in view.items()})
            self.last.update({item: token for item, (token, _, _) in view.items()})


def session_of(context: Context) -> Session:
    """The session that all threads and tasks of a worker share."""
    shared = context.shared
    if "store_session" not in shared:
        # A store in memory is open already, with the clock that all have.
        tick = context.random.choice([0.0, 0.1, 0.1]) if context.place.is_shared else 0.0
        made = Session(context.place, shared["stack"], shared["astack"], tick)
        shared.setdefault("store_session", made)
    session: Session = shared["store_session"]
    return session


def clock() -> float:
    """Looked up at each call: a fault may put it off."""
    return time.time()


def settings(place: Any, model: str, clock: Callable[[], float]) -> dict[str, Any]:
    """How a store is opened."""
    wanted: dict[str, Any] = {"index": MODELS[model].index(), "clock": clock}
    if "encrypted" in place.name:
        wanted["clear_fields"] = ["kind"]
    return wanted
