"""Keys of a node's config. Needed by deepagents, langgraph-prebuilt and copilotkit."""

from milepost.integrations.langgraph._alias import READ as CONFIG_KEY_READ
from milepost.integrations.langgraph._alias import SEND as CONFIG_KEY_SEND

CONF = "configurable"

__all__ = ["CONF", "CONFIG_KEY_READ", "CONFIG_KEY_SEND"]
