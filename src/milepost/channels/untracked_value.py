"""Another name of `milepost.channels.untracked`."""

from milepost.channels.untracked import UntrackedValue

__all__ = ["UntrackedValue"]
