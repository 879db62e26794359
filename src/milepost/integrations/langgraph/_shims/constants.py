"""Small names of LangGraph's private modules: a node's config keys, and what else is needed."""

from typing_extensions import TypedDict

from milepost._engine.context.runtime import GIVEN_RUNTIME as CONFIG_KEY_RUNTIME
from milepost._engine.streaming.tool_calls import current_writer as _tool_call_writer
from milepost.integrations.langgraph._alias import READ as CONFIG_KEY_READ
from milepost.integrations.langgraph._alias import SEND as CONFIG_KEY_SEND
from milepost.types import MISSING

CONF = "configurable"


class DeprecatedKwargs(TypedDict):
    """Keyword arguments that are not taken any more."""


__all__ = [
    "CONF",
    "CONFIG_KEY_READ",
    "CONFIG_KEY_RUNTIME",
    "CONFIG_KEY_SEND",
    "MISSING",
    "DeprecatedKwargs",
    "_tool_call_writer",
]
