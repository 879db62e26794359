"""The error of a versioned put that came too late."""

from __future__ import annotations

from milepost.errors import VersionConflict
from milepost.store._core.tasks import Write


def conflict_error(write: Write, there: int) -> VersionConflict:
    """The error for a put whose version is not the one that is there (0 for no item)."""
    state = f"at version {there}" if there else "not there"
    wanted = f"version {write.if_version}" if write.if_version else "no item"
    return VersionConflict(
        f"The item {write.key!r} in {write.namespace} is {state}, but the caller expected "
        f"{wanted}; nothing was written. Get the item again, apply the change to it, and put it "
        "with if_version=item.version."
    )
