"""The official client, sync and async, under one set of methods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from langgraph_sdk import get_client, get_sync_client


class Sync:
    """The sync client."""

    def __init__(self, url: str, token: str) -> None:
        self._client = get_sync_client(url=url, api_key=token)

    def __getattr__(self, part: str) -> Any:
        return getattr(self._client, part)

    def close(self) -> None:
        self._client.close()


class Async:
    """The async client, each call awaited on one loop."""

    def __init__(self, url: str, token: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = get_client(url=url, api_key=token)

    def __getattr__(self, part: str) -> Any:
        return _Part(getattr(self._client, part), self._loop.run_until_complete)

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


class _Part:
    def __init__(self, part: Any, wait: Callable[[Any], Any]) -> None:
        self._part = part
        self._wait = wait

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self._wait(getattr(self._part, name)(*args, **kwargs))
