"""Objects of LangGraph's own classes, from programs whose imports were changed in part."""

from __future__ import annotations

_THEIRS = "langgraph."
_PRIVATE_KEYS = "'__pregel_"


def advice(value: object) -> str:
    """What to do about an object of a class of LangGraph's; nothing for other objects."""
    kind = type(value)
    if not kind.__module__.startswith(_THEIRS):
        return ""
    ours = kind.__module__.replace(_THEIRS, "milepost.", 1)
    return (
        f" It is LangGraph's {kind.__name__}, which milepost does not know: import it from "
        f"{ours}, or run the program with `milepost run --as-langgraph`."
    )


def is_from_their_call(error: Exception) -> bool:
    """Whether a function of LangGraph's was called in a node and did not find its own runtime."""
    return isinstance(error, KeyError) and str(error).startswith(_PRIVATE_KEYS)
