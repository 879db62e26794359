"""From what went wrong to a status and a sentence: `{"detail": "…"}`, as in an Agent Server."""

from __future__ import annotations

from typing import Final

from milepost import errors, inspect


class HttpError(Exception):
    """An answer other than a success, with the sentence that the client shows."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def not_found(detail: str) -> HttpError:
    """What the request names is not there."""
    return HttpError(404, detail)


def refused(detail: str) -> HttpError:
    """The request was understood and cannot be carried out as it is."""
    return HttpError(422, detail)


_STATUSES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (inspect.ThreadNotFoundError, 404),
    (inspect.StateNotFoundError, 404),
    (inspect.ReadOnlyError, 403),
    (inspect.CannotOpenError, 503),
    (inspect.DamagedError, 500),
    (inspect.InspectError, 422),
    (errors.CheckpointNotFoundError, 404),
    (errors.ThreadConflict, 409),
    (errors.VersionConflict, 409),
    (errors.BrokenChainError, 409),
    (errors.ReadOnlyError, 403),
    (errors.DatabaseBusyError, 503),
    (errors.NotSetUpError, 503),
    (errors.MissingDependencyError, 501),
    (errors.GraphBuildError, 400),
    (errors.InvalidIdError, 422),
    (errors.InvalidUpdateError, 422),
    (errors.EmptyInputError, 422),
    (errors.UnknownInterruptError, 422),
    (errors.SerializationError, 422),
    (errors.MissingNodeError, 422),
    (errors.InvalidNamespaceError, 422),
    (errors.InvalidKeyError, 422),
    (errors.ValueTooLargeError, 422),
    (errors.FilterError, 422),
)
"""The first class that an error is an instance of says the status."""


def as_http_error(error: Exception) -> HttpError | None:
    """What to answer for an error of the library; None for one that nothing is known about."""
    if isinstance(error, HttpError):
        return error
    if type(error) is RecursionError:
        return HttpError(422, "Something that was sent is nested too deeply.")
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return HttpError(status, str(error) or type(error).__name__)
    return None
