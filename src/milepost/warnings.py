"""What milepost warns of: things that run, and are most likely a mistake.

To see a warning as an error, give the graph `strict=True`, or set the environment variable
`MILEPOST_STRICT=1`; to silence one, use `warnings.filterwarnings` with `MilepostWarning`.
"""

from __future__ import annotations

__all__ = [
    "LangGraphDeprecatedSinceV05",
    "LangGraphDeprecatedSinceV10",
    "LangGraphDeprecatedSinceV11",
    "LangGraphDeprecationWarning",
    "MilepostWarning",
]


class MilepostWarning(UserWarning):
    """Something was passed over that `strict=True` refuses.

    The message names the node and the key, and says what was done instead. Each place is
    reported once.
    """


class LangGraphDeprecationWarning(DeprecationWarning):
    """A name or parameter that LangGraph has deprecated, and that works here as it did there.

    `since` is the version of LangGraph that deprecated it, `expected_removal` the one that is to
    remove it.
    """

    def __init__(
        self,
        message: str,
        *args: object,
        since: tuple[int, int],
        expected_removal: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, *args)
        self.message = message.rstrip(".")
        self.since = since
        self.expected_removal = expected_removal or (since[0] + 1, 0)

    def __str__(self) -> str:
        since, removal = (
            ".".join(map(str, version)) for version in (self.since, self.expected_removal)
        )
        return f"{self.message}. (Deprecated since LangGraph {since}, to be removed in {removal}.)"


class LangGraphDeprecatedSinceV05(LangGraphDeprecationWarning):
    """Deprecated since LangGraph 0.5."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(0, 5), expected_removal=(2, 0))


class LangGraphDeprecatedSinceV10(LangGraphDeprecationWarning):
    """Deprecated since LangGraph 1.0."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(1, 0), expected_removal=(2, 0))


class LangGraphDeprecatedSinceV11(LangGraphDeprecationWarning):
    """Deprecated since LangGraph 1.1."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(1, 1), expected_removal=(3, 0))
