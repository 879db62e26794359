"""The spans of operations that are no runs: get_state, update_state, prune, verify, …"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry.context import attach, detach, get_current

from milepost.checkpoint._contract.threads import Removed
from milepost.integrations._otel import names
from milepost.integrations._otel.telemetry import Attributes, Telemetry

if TYPE_CHECKING:
    from milepost._internal.operations import Operation


@contextmanager
def follow(telemetry: Telemetry, operation: Operation) -> Iterator[None]:
    """Make the span of an operation; it is current, unless the caller's code runs in between."""
    about: Attributes = {}
    if operation.thread_id is not None:
        about[names.CONVERSATION] = operation.thread_id
    if operation.graph is not None:
        about[names.WORKFLOW] = operation.graph
    opened = telemetry.begin(operation.name, get_current(), about)
    token = None if operation.yields else attach(opened.around)
    try:
        yield
        opened.span.set_attributes(_about(operation.result))
    except BaseException as error:
        telemetry.mark(opened.span, error)
        raise
    finally:
        if token is not None:
            detach(token)
        opened.span.end()


def _about(result: Any) -> Attributes:
    """What is told of a result: numbers and ids, no values."""
    if isinstance(result, Removed):
        return {
            names.REMOVED_THREADS: len(result.threads),
            names.REMOVED_CHECKPOINTS: result.checkpoints,
            names.REMOVED_WRITES: result.writes,
            names.REMOVED_VALUES: result.values,
        }
    config = result if isinstance(result, dict) else getattr(result, "config", None)
    if isinstance(config, dict):
        checkpoint_id = (config.get("configurable") or {}).get("checkpoint_id")
        if isinstance(checkpoint_id, str):
            return {names.CHECKPOINT: checkpoint_id}
    return {}
