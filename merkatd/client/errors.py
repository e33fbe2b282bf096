"""What can go wrong with a call: one error for each thing to do then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class MerkatError(Exception):
    """A call that was not done; the message is the daemon's own."""

    def __init__(self, text: str, code: int = 0, id: int = -1) -> None:  # noqa: A002 - its name everywhere
        super().__init__(text)
        self.code = code
        self.id = id
        """What it was about, -1 for nothing in particular."""


class AuthenticationError(MerkatError):
    """The login is nobody's."""


class ForbiddenError(MerkatError):
    """The user may not do this."""


class MissingError(MerkatError):
    """There is no such VM, application or tenant."""


class NotNowError(MerkatError):
    """It can't be done now: try again in a moment."""


class BadCallError(MerkatError):
    """The arguments are not what the daemon takes."""


class InternalError(MerkatError):
    """The daemon, or the OpenNebula behind it, failed."""


class UnreachableError(MerkatError):
    """No answer came, or none of a daemon: what was asked for may have been done or not."""


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
"""By OpenNebula's code."""


def value_of(reply: Any) -> Any:
    """The value of an answer that says success; raises the error that it says otherwise."""
    match reply:
        case [True, value, int()]:
            return value
        case [False, str(text), int(code), int(about), *_]:
            raise ERRORS.get(code, MerkatError)(text, code, about)
    raise UnreachableError(f"what answers is no merkatd: {str(reply)[:80]}")
