"""What a caller says about a run: checked, completed, and put into one record."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Self

from milepost.constants import START
from milepost.runtime.config import check_interrupt_nodes, merge_configs
from milepost.runtime.options import Options
from milepost.runtime.scope import RunControl, Scope, find_scope
from milepost.runtime.session import Session
from milepost.runtime.stream import Feed
from milepost.state.schema import is_pydantic

if TYPE_CHECKING:
    from milepost.cache.base import BaseCache
    from milepost.runtime.program import Program
    from milepost.store.base import BaseStore
    from milepost.types import All, Checkpointer, OnConflict, RunnableConfig, StreamMode

_MODES = ("values", "updates", "checkpoints", "tasks", "debug", "messages", "custom")
_INHERITED = (
    "configurable",
    "metadata",
    "tags",
    "callbacks",
    "recursion_limit",
    "max_concurrency",
    "run_id",
)
_KNOWN = frozenset(
    {
        "context",
        "control",
        "debug",
        "durability",
        "interrupt_after",
        "interrupt_before",
        "on_conflict",
        "output_keys",
        "print_mode",
        "version",
    }
)


class GraphCore:
    """A compiled program with what it was compiled with."""

    context_schema: Any = None
    stream_mode: StreamMode = "updates"

    def __init__(
        self,
        *,
        program: Program,
        checkpointer: Checkpointer = None,
        store: BaseStore | None = None,
        cache: BaseCache[Any] | None = None,
        interrupt_before: All | Sequence[str] = (),
        interrupt_after: All | Sequence[str] = (),
        on_conflict: OnConflict = "newest",
        debug: bool = False,
        name: str = "graph",
        config: RunnableConfig | None = None,
    ) -> None:
        self.program = program
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.interrupt_before = interrupt_before
        self.interrupt_after = interrupt_after
        self.on_conflict = checked_policy(on_conflict)
        self.debug = debug
        self.name = name
        self.config: RunnableConfig = config or {}

    def __repr__(self) -> str:
        nodes = [name for name in self.program.nodes if name != START]
        return f"<{type(self).__name__} {self.name!r} with nodes {', '.join(nodes)}>"

    @property
    def nodes(self) -> Mapping[str, Any]:
        """The nodes by name, START included."""
        return self.program.nodes

    @property
    def channels(self) -> Mapping[str, Any]:
        """The channels by name."""
        return self.program.channels

    def get_name(self) -> str:
        """The name that a node gets from this graph."""
        return self.name

    def with_config(self, config: RunnableConfig | None = None, **options: Any) -> Self:
        """A copy of the graph that runs with this config where the caller says nothing else."""
        copy = self.__class__.__new__(self.__class__)
        copy.__dict__.update(self.__dict__)
        copy.config = merge_configs(self.config, config, options)  # type: ignore[arg-type]
        return copy

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """A copy with other attributes."""
        copy = self.with_config()
        copy.__dict__.update(update or {})
        return copy

    def _session(
        self,
        feed: Feed,
        config: RunnableConfig | None,
        options: dict[str, Any],
        *,
        above: int = 0,
    ) -> Session:
        """A run that is ready to start; `above`: how much further up its caller is."""
        settings = _settings(options, above)
        parent = find_scope()
        if parent is not None and parent.session.feed.takes_from_children:
            feed.parent = parent.session.feed
        return Session(self.program, self._options(config, settings, parent), feed, parent)

    def _options(
        self, config: RunnableConfig | None, settings: dict[str, Any], parent: Scope | None
    ) -> Options:
        before = settings.get("interrupt_before")
        after = settings.get("interrupt_after")
        if before or after:
            nodes = [name for name in self.program.nodes if name != START]
            check_interrupt_nodes(before, nodes)
            check_interrupt_nodes(after, nodes)
        keys = settings.get("output_keys")
        for key in [keys] if isinstance(keys, str) else keys or ():
            if key not in self.program.channels:
                raise ValueError(
                    f"output_keys names '{key}', which is not in the state. "
                    f"It has: {', '.join(self.program.keys)}."
                )
        return Options(
            config=merge_configs(self.config, _inherited(parent), config),
            checkpointer=self.checkpointer,
            durability=settings.get("durability"),
            on_conflict=checked_policy(settings.get("on_conflict") or self.on_conflict),
            context=self._context(settings.get("context")),
            interrupt_before=self.interrupt_before if before is None else before,
            interrupt_after=self.interrupt_after if after is None else after,
            output_keys=keys,
            control=settings.get("control"),
            store=self.store,
            cache=self.cache,
        )

    def _show_output(self, options: dict[str, Any]) -> None:
        """Let a run show what it returns, if the caller does not say what to show."""
        if options.get("output_keys") is None:
            options["output_keys"] = self.program.output_keys

    def _context(self, context: Any) -> Any:
        schema = self.context_schema
        if schema is None or not isinstance(context, dict):
            return context
        return schema(**context) if is_dataclass(schema) or is_pydantic(schema) else context

    def _feed(
        self, modes: StreamMode | Sequence[StreamMode] | None, subgraphs: bool
    ) -> tuple[Feed, bool]:
        wanted = self.stream_mode if modes is None else modes
        many = not isinstance(wanted, str)
        names = frozenset([wanted] if isinstance(wanted, str) else wanted)
        for name in names:
            if name not in _MODES:
                raise ValueError(f"Unknown stream_mode '{name}'. Use one of {', '.join(_MODES)}.")
        return Feed(names, subgraphs, eager=self.program.starts_tasks), many


def _settings(options: dict[str, Any], above: int = 0) -> dict[str, Any]:
    """The options of a run, checked; older spellings are translated."""
    settings = dict(options)
    if "checkpoint_during" in settings:
        during = settings.pop("checkpoint_during")
        warnings.warn(
            "checkpoint_during is deprecated: pass durability='async' or durability='exit'.",
            DeprecationWarning,
            stacklevel=4 + above,
        )
        if during is not None:
            if settings.get("durability") is not None:
                raise ValueError("Pass durability or checkpoint_during, not both.")
            settings["durability"] = "async" if during else "exit"
    for name in settings:
        if name not in _KNOWN:
            raise TypeError(
                f"Unknown option '{name}'. Known ones are: {', '.join(sorted(_KNOWN))}."
            )
    durability = settings.get("durability")
    if durability not in (None, "sync", "async", "exit"):
        raise ValueError(f"Unknown durability '{durability}'. Use 'sync', 'async' or 'exit'.")
    version = settings.get("version")
    if version not in (None, "v1"):
        raise ValueError(
            f"There is no form '{version}' of events and results. Leave `version` out, and name "
            "the `stream_mode`s you want: with several, each event comes with its mode."
        )
    checked_control(settings.get("control"))
    return settings


def checked_control(control: object) -> RunControl | None:
    """What the caller wants to stop runs with, if that can."""
    if control is not None and not isinstance(control, RunControl):
        raise TypeError("control must be a milepost.runtime.RunControl.")
    return control


def checked_policy(policy: OnConflict) -> OnConflict:
    """A policy for two runs on one thread, if it is one."""
    if policy not in ("newest", "reject"):
        raise ValueError(f"Unknown on_conflict '{policy}'. Use 'newest' or 'reject'.")
    return policy


def _inherited(parent: Scope | None) -> RunnableConfig | None:
    """What a graph called inside a node takes over from the run around it."""
    if parent is None:
        return None
    outer: Mapping[str, Any] = parent.session.config
    config = {key: outer[key] for key in _INHERITED if key in outer}
    configurable = {
        key: value
        for key, value in (outer.get("configurable") or {}).items()
        if not key.startswith("checkpoint_")
    }
    return {**config, "configurable": configurable}  # type: ignore[return-value]
