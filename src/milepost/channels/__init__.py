"""Channels: the keys of a state, each with its rule for combining writes."""

from milepost.channels.any_value import AnyValue
from milepost.channels.base import BaseChannel
from milepost.channels.binop import BinaryOperatorAggregate
from milepost.channels.delta import DeltaChannel
from milepost.channels.ephemeral_value import EphemeralValue
from milepost.channels.last_value import LastValue, LastValueAfterFinish
from milepost.channels.named_barrier_value import (
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
)
from milepost.channels.topic import Topic
from milepost.channels.untracked_value import UntrackedValue

__all__ = [
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]
