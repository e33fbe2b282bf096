"""The errors of a call: one class for each way to handle it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class MerkatError(Exception):
    """A failed call; the message is the daemon's own text."""

    def __init__(self, text: str, code: int = 0, id: int = -1) -> None:  # noqa: A002 - public
        super().__init__(text)
        self.code = code
        self.id = id
        """The id of the object concerned; -1 for none."""


class AuthenticationError(MerkatError):
    """The daemon rejected the login."""


class ForbiddenError(MerkatError):
    """The user may not do this."""


class MissingError(MerkatError):
    """The VM, application or tenant does not exist."""


class NotNowError(MerkatError):
    """The call is not possible now: try again in a moment."""


class BadCallError(MerkatError):
    """The arguments are invalid."""


class InternalError(MerkatError):
    """The daemon, or the OpenNebula behind it, failed."""


class UnreachableError(MerkatError):
    """No valid answer arrived: the daemon may or may not have carried out the call."""


ERRORS: Mapping[int, type[MerkatError]] = MappingProxyType(
    {
        256: AuthenticationError,
        512: ForbiddenError,
        1024: MissingError,
        2048: NotNowError,
        4096: BadCallError,
        8192: InternalError,
    }
)
"""The error classes by OpenNebula's error code."""


def value_of(reply: Any) -> Any:
    """Return the value of a successful answer; raise the error of a failed one."""
    match reply:
        case [True, value, int()]:
            return value
        case [False, str(text), int(code), int(about), *_]:
            raise ERRORS.get(code, MerkatError)(text, code, about)
    raise UnreachableError(f"expected an answer of merkatd (got {str(reply)[:80]})")
