"""Errors of requests: invalid, not permitted, unknown object, not possible now, in conflict.

Services raise these alone. Each interface has a table from these to its own codes: `_CODES` in
`merkatd/api/xmlrpc/dispatch.py` and `_STATUSES` in `merkatd/web/base/error_statuses.py`; the
control socket answers with the text.
"""

NO_ID = -1


class RequestError(Exception):
    """A request that fails; the text is for the caller."""

    def __init__(self, text: str, oid: int = NO_ID) -> None:
        """`oid` is the id of the object of the request, or NO_ID."""
        super().__init__(text)
        self.text = text
        self.oid = oid


class InvalidRequestError(RequestError):
    """A request that is wrong in itself; the text names the accepted values."""


class NotAuthenticatedError(RequestError):
    """A request with an invalid login."""


class NotPermittedError(RequestError):
    """A request for which its caller has not the rights."""


class UnknownObjectError(RequestError):
    """A request about an object that does not exist."""


class ConflictError(RequestError):
    """A request that the present state of its object or of an account does not permit."""


class TryAgainError(RequestError):
    """A request that is not possible now, but may be later."""


class NotSupportedError(TryAgainError):
    """A request for a part of Merkat that this daemon does not run."""


class TooManyOrdersError(TryAgainError):
    """An order of a user who gave too many."""


class TooManyRequestsError(TryAgainError):
    """A call of a caller that exceeds its limits: the server may delay the answer."""
