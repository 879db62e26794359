"""Redis and Valkey servers of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redis_servers import DURABLE, RedisServer, started


@pytest.fixture
def new_server() -> Iterator[Callable[..., RedisServer]]:
    """Starts servers with options; by default each step is on the disk before it is answered."""
    made: list[RedisServer] = []

    def make(*options: str, **given: Any) -> RedisServer:
        made.append(started(*(options or DURABLE), **given))
        return made[-1]

    yield make
    for server in made:
        server.close()
