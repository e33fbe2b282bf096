"""The page's HTTP statuses and texts of errors."""

from collections.abc import Mapping
from http import HTTPStatus

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.service.base.errors import (
    ConflictError,
    InvalidRequestError,
    NotAuthenticatedError,
    NotPermittedError,
    NotSupportedError,
    RequestError,
    TooManyOrdersError,
    TooManyRequestsError,
    TryAgainError,
    UnknownObjectError,
)

_LONGEST_LOGGED = 200
_log = Logger()

_STATUSES: Mapping[type[Exception], HTTPStatus] = {
    NotAuthenticatedError: HTTPStatus.FORBIDDEN,
    # A visitor must not learn whether an object of another tenant exists.
    NotPermittedError: HTTPStatus.NOT_FOUND,
    UnknownObjectError: HTTPStatus.NOT_FOUND,
    TooManyRequestsError: HTTPStatus.TOO_MANY_REQUESTS,
    TooManyOrdersError: HTTPStatus.TOO_MANY_REQUESTS,
    NotSupportedError: HTTPStatus.NOT_IMPLEMENTED,
    TryAgainError: HTTPStatus.SERVICE_UNAVAILABLE,
    InvalidRequestError: HTTPStatus.UNPROCESSABLE_ENTITY,
    ConflictError: HTTPStatus.UNPROCESSABLE_ENTITY,
}
"""The statuses of errors; the first matching type applies."""


def status_of(error: Exception) -> HTTPStatus:
    """Return the status of the answer to a request that failed with this error."""
    statuses = (status for kind, status in _STATUSES.items() if isinstance(error, kind))
    return next(statuses, HTTPStatus.SERVICE_UNAVAILABLE)


def text_of(path: str, error: Exception) -> str:
    """Return the text for the visitor; an unexpected error is logged."""
    if isinstance(error, RequestError | CloudUnreachableError | CancelledError):
        return str(error)
    _log.failure("The page {path} failed", path=ascii(path[:_LONGEST_LOGGED])[1:-1])
    return "the daemon failed to answer; its log says why"
