"""Functions that find what belongs to the node that they are called in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost._engine.context.task_context import current_context
from milepost.errors import OutsideRunError

if TYPE_CHECKING:
    from milepost.store.base import BaseStore
    from milepost.types import RunnableConfig, StreamWriter

__all__ = ["get_config", "get_store", "get_stream_writer"]


def get_config() -> RunnableConfig:
    """The config of the running node."""
    return current_context("get_config").config


def get_store() -> BaseStore:
    """The store that the graph was compiled with.

    None if it has none: a strict graph raises OutsideRunError then, any other warns.
    """
    run = current_context("get_store").run
    store = run.resources.store
    if store is None:
        run.program.strictness.check(
            "get_store",
            lambda: OutsideRunError(
                "The graph has no store. Compile it with one: "
                "`builder.compile(store=InMemoryStore())`."
            ),
            "get_store() returns None.",
        )
    return store  # type: ignore[return-value] # what the documents say, and most programs have


def get_stream_writer() -> StreamWriter:
    """A function that sends to the `custom` stream."""
    return current_context("get_stream_writer").stream_writer
