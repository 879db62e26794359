"""The status and the sentence of each error: `{"detail": "…"}`, as in an Agent Server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from milepost import errors, inspect


class HttpError(Exception):
    """An answer other than a success, with the sentence that the client shows."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def not_found(detail: str) -> HttpError:
    """The 404 for something that the request names and that does not exist."""
    return HttpError(404, detail)


def refused(detail: str) -> HttpError:
    """The error for a request that was understood and cannot be carried out."""
    return HttpError(422, detail)


_STATUSES: Final[Mapping[int, tuple[type[Exception], ...]]] = {
    400: (errors.GraphBuildError,),
    403: (inspect.ReadOnlyError, errors.ReadOnlyError),
    404: (
        inspect.ThreadNotFoundError,
        inspect.StateNotFoundError,
        errors.CheckpointNotFoundError,
    ),
    409: (errors.ThreadConflict, errors.VersionConflict, errors.BrokenChainError),
    500: (inspect.DamagedError,),
    501: (errors.MissingDependencyError,),
    503: (inspect.CannotOpenError, errors.DatabaseBusyError, errors.NotSetUpError),
    422: (
        inspect.InspectError,
        errors.InvalidIdError,
        errors.InvalidUpdateError,
        errors.EmptyInputError,
        errors.UnknownInterruptError,
        errors.SerializationError,
        errors.MissingNodeError,
        errors.InvalidNamespaceError,
        errors.InvalidKeyError,
        errors.ValueTooLargeError,
        errors.FilterError,
    ),
}
"""422 is last: other errors of `inspect` are an InspectError too."""


def as_http_error(error: Exception) -> HttpError | None:
    """The answer to an error of the library; None for any other error."""
    if isinstance(error, HttpError):
        return error
    if type(error) is RecursionError:
        return HttpError(422, "Something that was sent is nested too deeply.")
    for status, kinds in _STATUSES.items():
        if isinstance(error, kinds):
            return HttpError(status, str(error) or type(error).__name__)
    return None
