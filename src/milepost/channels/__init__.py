"""Channels: the keys of a state, each with its rule for combining writes."""

from typing import TYPE_CHECKING

from milepost.channels.base import BaseChannel
from milepost.channels.binop import BinaryOperatorAggregate
from milepost.channels.last_value import LastValue, LastValueAfterFinish
from milepost.on_demand import on_demand

if TYPE_CHECKING:
    from milepost.channels.any_value import AnyValue
    from milepost.channels.barrier import NamedBarrierValue, NamedBarrierValueAfterFinish
    from milepost.channels.delta import DeltaChannel
    from milepost.channels.ephemeral import EphemeralValue
    from milepost.channels.topic import Topic
    from milepost.channels.untracked import UntrackedValue
else:
    __getattr__, __dir__ = on_demand(
        __name__,
        {
            "AnyValue": "milepost.channels.any_value",
            "DeltaChannel": "milepost.channels.delta",
            "EphemeralValue": "milepost.channels.ephemeral",
            "NamedBarrierValue": "milepost.channels.barrier",
            "NamedBarrierValueAfterFinish": "milepost.channels.barrier",
            "Topic": "milepost.channels.topic",
            "UntrackedValue": "milepost.channels.untracked",
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
