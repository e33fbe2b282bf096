"""The ledger's errors as errors of requests."""

from collections.abc import Iterator
from contextlib import contextmanager

from merkatd.ledger import LedgerError, NotFoundError
from merkatd.service.base.errors import ConflictError, UnknownObjectError


@contextmanager
def ledger_errors_translated() -> Iterator[None]:
    """Raise ConflictError or UnknownObjectError, with the same text, for an error of the ledger."""
    try:
        yield
    except NotFoundError as error:
        raise UnknownObjectError(str(error)) from None
    except LedgerError as error:
        raise ConflictError(str(error)) from None
