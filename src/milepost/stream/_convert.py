"""From a part of `version="v2"` to an event."""

from __future__ import annotations

import time
from typing import Any

from milepost.stream._types import ProtocolEvent


def convert_to_protocol_event(part: Any) -> ProtocolEvent:
    """A part of a stream in the envelope that transformers see."""
    event = new_event(part["type"], list(part["ns"]), part["data"])
    if "interrupts" in part:
        event["params"]["interrupts"] = part["interrupts"]
    return event


def new_event(method: str, namespace: list[str], data: Any) -> ProtocolEvent:
    """An event of this moment."""
    return {
        "type": "event",
        "method": method,
        "params": {
            "namespace": namespace,
            "timestamp": int(time.time() * 1000),
            "data": data,
        },
    }
