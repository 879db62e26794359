"""Needed by langmem and trustcall."""

from milepost.integrations.langgraph._shims._internal._runnable import (
    RunnableCallable,
    RunnableLike,
)

__all__ = ["RunnableCallable", "RunnableLike"]
