"""Channels: the keys of a state, each with its rule for combining writes."""

from typing import TYPE_CHECKING

from milepost._internal.lazy_imports import on_demand
from milepost.channels.base import BaseChannel
from milepost.channels.binop import BinaryOperatorAggregate
from milepost.channels.last_value import LastValue, LastValueAfterFinish

if TYPE_CHECKING:
    from milepost.channels.any_value import AnyValue
    from milepost.channels.delta import DeltaChannel
    from milepost.channels.ephemeral_value import EphemeralValue
    from milepost.channels.named_barrier_value import (
        NamedBarrierValue,
        NamedBarrierValueAfterFinish,
    )
    from milepost.channels.topic import Topic
    from milepost.channels.untracked_value import UntrackedValue
else:
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "AnyValue": "milepost.channels.any_value",
            "DeltaChannel": "milepost.channels.delta",
            "EphemeralValue": "milepost.channels.ephemeral_value",
            "NamedBarrierValue": "milepost.channels.named_barrier_value",
            "NamedBarrierValueAfterFinish": "milepost.channels.named_barrier_value",
            "Topic": "milepost.channels.topic",
            "UntrackedValue": "milepost.channels.untracked_value",
        },
    )

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
