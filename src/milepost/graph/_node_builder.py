"""Nodes of a graph that is made from channels: what starts them, what they read, do and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from milepost._engine.context.config import retry_policies
from milepost._internal.dataclass_tools import record
from milepost._internal.texts import plain
from milepost.constants import TASKS
from milepost.errors import InvalidUpdateError
from milepost.types import CachePolicy, RetryPolicy, Send, TimeoutPolicy

if TYPE_CHECKING:
    from datetime import timedelta

    from milepost._engine.superstep.program import Write


class _Mark:
    """A value that means something else than itself."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    __reduce__ = __repr__  # the name of a global: copied and pickled, it stays itself


PASSTHROUGH: Final = _Mark("PASSTHROUGH")
"""As the value of a write: what the node returned."""
SKIP_WRITE: Final = _Mark("SKIP_WRITE")
"""As what a mapper returns: write nothing."""


class ChannelWriteEntry(NamedTuple):
    """What a node writes to one channel when it has run.

    Examples:
        >>> from milepost.pregel import ChannelWriteEntry
        >>> ChannelWriteEntry("sizes", mapper=len).write(["a", "b"])
        ('sizes', 2)
    """

    channel: str
    """The name of the channel."""
    value: Any = PASSTHROUGH
    """What is written; PASSTHROUGH for what the node returned."""
    skip_none: bool = False
    """Whether None is not written."""
    mapper: Callable[[Any], Any] | None = None
    """Makes what is written out of the value."""

    def write(self, output: Any) -> Write | None:
        """The write after a node has returned `output`, if there is one.

        Args:
            output: What the node returned.
        """
        value = output if self.value is PASSTHROUGH else self.value
        if self.mapper is not None:
            value = self.mapper(value)
        if value is SKIP_WRITE or (self.skip_none and value is None):
            return None
        return (self.channel, value)


@record(kw_only=True)
class PregelNode:
    """A node as `NodeBuilder.build` makes it."""

    channels: str | tuple[str, ...] = ()
    """What the node is called with: the value of one channel, or a dict of several."""
    triggers: tuple[str, ...] = ()
    """A new value in one of these channels makes the node run."""
    actions: tuple[Any, ...] = ()
    """What the node does: each is called with what the one before it returned."""
    writes: tuple[ChannelWriteEntry | Send, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    retry_policy: tuple[RetryPolicy, ...] = ()
    cache_policy: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None

    def writes_of(self, output: Any) -> list[Write]:
        """What is written after the node has returned `output`."""
        writes: list[Write] = []
        for entry in self.writes:
            if isinstance(entry, Send):
                writes.append((TASKS, entry))
            elif (write := entry.write(output)) is not None:
                writes.append(write)
        return writes


class NodeBuilder:
    """Describes a node of a graph that is made from channels: `Pregel(nodes=..., channels=...)`.

    Every method returns the builder itself.

    Examples:
        >>> from milepost.channels import LastValue
        >>> from milepost.pregel import NodeBuilder, Pregel
        >>> node = NodeBuilder().subscribe_only("word").do(len).write_to("size")
        >>> graph = Pregel(
        ...     nodes={"measure": node},
        ...     channels={"word": LastValue(str), "size": LastValue(int)},
        ...     input_channels="word",
        ...     output_channels="size",
        ... )
        >>> graph.invoke("four")
        4
    """

    __slots__ = ("_node",)

    def __init__(self) -> None:
        self._node = PregelNode()

    def _change(self, **fields: Any) -> Self:
        self._node = replace(self._node, **fields)
        return self

    def subscribe_only(self, channel: str) -> Self:
        """Run when this channel gets a value, and be called with that value alone.

        Args:
            channel: The name of the channel.
        """
        if self._node.channels:
            raise ValueError(
                f"subscribe_only({channel!r}) after other channels: a node reads the bare value "
                "of one channel, or a dict of several. Use subscribe_to for all of them."
            )
        channel = plain(channel)
        return self._change(channels=channel, triggers=(*self._node.triggers, channel))

    def subscribe_to(self, *channels: str, read: bool = True) -> Self:
        """Run when one of these channels gets a value, and be called with a dict of their values.

        Args:
            *channels: Names of channels.
            read: With `False` they make the node run, and are not in the dict.
        """
        known = self._node.channels
        if isinstance(known, str):
            raise ValueError(
                f"subscribe_to{channels} after subscribe_only({known!r}), whose bare "
                "value the node is called with. Use subscribe_to for all channels."
            )
        names = tuple(map(plain, channels))
        return self._change(
            channels=(*known, *names) if read else known,
            triggers=(*self._node.triggers, *names),
        )

    def read_from(self, *channels: str) -> Self:
        """Read these channels too, without being run by them.

        Args:
            *channels: Names of channels.
        """
        known = self._node.channels
        if isinstance(known, str):
            raise ValueError(
                f"read_from{channels} after subscribe_only({known!r}), whose bare value "
                "the node is called with. Use subscribe_to instead of subscribe_only."
            )
        return self._change(channels=(*known, *map(plain, channels)))

    def do(self, node: Any) -> Self:
        """Call this function or runnable; a second one with what the first returned, and so on.

        Args:
            node: A function, or anything with `invoke`.
        """
        return self._change(actions=(*self._node.actions, node))

    def write_to(self, *channels: str | ChannelWriteEntry | Send, **values: Any) -> Self:
        """Write what the node returned to channels, or values of your own.

        Args:
            *channels: Channels that get what the node returned.
            **values: Channels and what each gets; a function is called with what the node returned.
        """
        entries = [ChannelWriteEntry(one) if isinstance(one, str) else one for one in channels]
        for name, value in values.items():
            entries.append(
                ChannelWriteEntry(name, mapper=value)
                if callable(value)
                else ChannelWriteEntry(name, value)
            )
        return self._change(writes=(*self._node.writes, *map(_checked_entry, entries)))

    def meta(self, *tags: str, **metadata: Any) -> Self:
        """Give the node tags and metadata, which its function and traces see.

        Args:
            *tags: Tags of the node.
            **metadata: Metadata of the node.
        """
        return self._change(
            tags=(*self._node.tags, *tags), metadata={**self._node.metadata, **metadata}
        )

    def add_retry_policies(self, *policies: RetryPolicy) -> Self:
        """Try the node again when it fails in one of these ways.

        Args:
            *policies: The first that fits an error counts.
        """
        return self._change(retry_policy=(*self._node.retry_policy, *retry_policies(policies)))

    def add_cache_policy(self, policy: CachePolicy) -> Self:
        """Take the result of the node from the graph's cache if it is there.

        Args:
            policy: What the key is made from, and how long a result is good.
        """
        return self._change(cache_policy=policy)

    def set_timeout(self, timeout: float | timedelta | TimeoutPolicy | None) -> Self:
        """Say how long one attempt of the node may take.

        Args:
            timeout: Seconds, a timedelta or a policy; `None` for no limit.
        """
        return self._change(timeout=TimeoutPolicy.coerce(timeout))

    def build(self) -> PregelNode:
        """The node."""
        return replace(self._node, triggers=tuple(dict.fromkeys(self._node.triggers)))


def _checked_entry(entry: Any) -> ChannelWriteEntry | Send:
    if isinstance(entry, Send):
        return entry
    if not isinstance(entry, ChannelWriteEntry):
        raise TypeError(
            f"write_to takes names of channels, ChannelWriteEntry and Send, not {entry!r}."
        )
    if entry.channel == TASKS:
        raise InvalidUpdateError(
            f"Channel '{TASKS}' holds the tasks that Sends ask for: write_to(Send(...))."
        )
    return entry._replace(channel=plain(entry.channel))
