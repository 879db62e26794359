"""What milepost warns of: things that run, and are most likely a mistake.

To see a warning as an error, give the graph `strict=True`, or set the environment variable
`MILEPOST_STRICT=1`; to silence one, use `warnings.filterwarnings` with `MilepostWarning`.
"""

from __future__ import annotations

__all__ = ["MilepostWarning"]


class MilepostWarning(UserWarning):
    """Something was passed over that `strict=True` refuses.

    The message names the node and the key, and says what was done instead. Each place is
    reported once.
    """
