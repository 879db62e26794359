"""Another name of `milepost.channels.barrier`."""

from milepost.channels.barrier import NamedBarrierValue, NamedBarrierValueAfterFinish

__all__ = ["NamedBarrierValue", "NamedBarrierValueAfterFinish"]
