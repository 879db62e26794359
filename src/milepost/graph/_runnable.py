"""A compiled graph as a LangChain `Runnable`, where LangChain is installed.

`isinstance(graph, Runnable)` is true as soon as a program has loaded LangChain. What a Runnable can
do besides running (`|`, `bind`, `with_retry`, `astream_events`, ...) is LangChain's own code, which
is imported when such a method is called.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, get_type_hints

from milepost._internal.lazy_imports import after_import
from milepost._internal.supported import required
from milepost.graph._typed_dicts import described

_BASE = "langchain_core.runnables.base"


def be_a_runnable(cls: type) -> None:
    """Make the instances of a class Runnables for LangChain, once LangChain is loaded."""
    after_import(_BASE, lambda langchain: langchain.Runnable.register(cls))


def runnable_class(wanted_for: str) -> Any:
    """LangChain's class `Runnable`; an ImportError names the method that needs it."""
    install = "run `pip install 'milepost[langchain]'`."
    with required(f"'{wanted_for}' of a graph needs LangChain: {install}"):
        return import_module(_BASE).Runnable


def from_langchain(name: str) -> Callable[..., Any]:
    """A method of a graph that LangChain's Runnable has."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(runnable_class(name), name)(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"RunnableMethods.{name}"
    method.__doc__ = f"LangChain's `Runnable.{name}`."
    return method


class RunnableMethods:
    """What a graph can do because it is a Runnable."""

    # Composition.
    __or__ = from_langchain("__or__")
    __ror__ = from_langchain("__ror__")
    pipe = from_langchain("pipe")
    pick = from_langchain("pick")
    assign = from_langchain("assign")
    map = from_langchain("map")

    # The same runnable, changed.
    bind = from_langchain("bind")
    with_retry = from_langchain("with_retry")
    with_fallbacks = from_langchain("with_fallbacks")
    with_listeners = from_langchain("with_listeners")
    with_alisteners = from_langchain("with_alisteners")
    with_types = from_langchain("with_types")

    def as_tool(self: Any, args_schema: Any = None, **options: Any) -> Any:
        """LangChain's `Runnable.as_tool`.

        Args:
            args_schema: A model of the tool's arguments.
            **options: As LangChain has them: `name`, `description`, `arg_types`.
        """
        described_type = described(self.InputType)
        if args_schema is None and described_type is not self.InputType:
            options["arg_types"] = options.get("arg_types") or get_type_hints(described_type)
        return from_langchain("as_tool")(self, args_schema, **options)

    # Running.
    transform = from_langchain("transform")
    atransform = from_langchain("atransform")
    batch_as_completed = from_langchain("batch_as_completed")
    abatch_as_completed = from_langchain("abatch_as_completed")
    astream_log = from_langchain("astream_log")
    astream_events = from_langchain("astream_events")
    stream_events = from_langchain("stream_events")

    # Used by LangChain's code above, and by subclasses of a graph.
    get_prompts = from_langchain("get_prompts")
    _astream_events_v1_v2 = from_langchain("_astream_events_v1_v2")
    _astream_events_v3_unsupported = from_langchain("_astream_events_v3_unsupported")
    _call_with_config = from_langchain("_call_with_config")
    _acall_with_config = from_langchain("_acall_with_config")
    _batch_with_config = from_langchain("_batch_with_config")
    _abatch_with_config = from_langchain("_abatch_with_config")
    _transform_stream_with_config = from_langchain("_transform_stream_with_config")
    _atransform_stream_with_config = from_langchain("_atransform_stream_with_config")

    @property
    def config_specs(self) -> list[Any]:
        """Fields of the config that a Runnable declares: a graph takes any."""
        return []
