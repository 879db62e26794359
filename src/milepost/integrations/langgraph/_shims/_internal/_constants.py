"""Keys of a node's config. Needed by deepagents, langgraph-prebuilt, copilotkit and langmem."""

from milepost._engine.context.runtime import GIVEN_RUNTIME as CONFIG_KEY_RUNTIME
from milepost.integrations.langgraph._alias import READ as CONFIG_KEY_READ
from milepost.integrations.langgraph._alias import SEND as CONFIG_KEY_SEND

CONF = "configurable"

__all__ = ["CONF", "CONFIG_KEY_READ", "CONFIG_KEY_RUNTIME", "CONFIG_KEY_SEND"]
