"""ValidationNode: checks the arguments of tool calls without running the tools."""

from milepost.prebuilt._tools.validation import ValidationNode

__all__ = ["ValidationNode"]
