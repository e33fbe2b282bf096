"""Errors of oned's calls: a class for each reaction that they need."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from merkatd.scheduler.base.ports import CloudUnreachableError


class OneError(Exception):
    """A call that oned refused. The message names the call, the object and oned's text."""

    def __init__(self, method: str, about: str, text: str, code: int) -> None:
        reason = text.removeprefix(f"[{method}]").strip() or "no reason given"
        super().__init__(f"{method}{f' of {about}' if about else ''}: {reason} (code {code})")
        self.method = method
        self.about = about
        self.text = reason
        self.code = code

    def with_advice(self, advice: str) -> "OneError":
        """Return the same error with a way out in its message."""
        error = type(self)(self.method, self.about, self.text, self.code)
        error.args = (f"{error}; {advice}",)
        return error


class OneAuthenticationError(OneError):
    """oned does not accept the session's user or password."""


class OneForbiddenError(OneError):
    """The session's user has no right for this call, or the object is locked."""


class OneMissingError(OneError):
    """The object does not exist."""


class WrongStateError(OneError):
    """The object's state does not allow the call, or its host has no room: read it again."""


class OneBadCallError(OneError):
    """The server does not accept the arguments."""


class OneInternalError(OneError):
    """The server has an internal error, or a template is invalid."""


class AllocateError(OneError):
    """A new object could not be created."""


class LongAnswerError(OneError):
    """The answer is longer than the client reads; `head` is its beginning."""

    def __init__(self, method: str, about: str, most_bytes: int, head: str) -> None:
        super().__init__(method, about, f"the answer has more than {most_bytes} bytes", 0)
        self.head = head


ERRORS: Mapping[int, type[OneError]] = MappingProxyType(
    {
        256: OneAuthenticationError,
        512: OneForbiddenError,
        1024: OneMissingError,
        2048: WrongStateError,
        4096: OneBadCallError,
        8192: OneInternalError,
        16384: AllocateError,
    }
)
"""Errors by oned's code."""

NOT_CALLED = frozenset({-501, -503, -506, -507, -509})
"""XML-RPC faults for calls that don't reach oned: wrong types, syntax, name or size."""


def value_of(reply: Any, method: str, about: str) -> Any:
    """Return the value of a successful answer; raise the error of any other."""
    match reply:
        case [True, value, *_]:
            return value
        case [False, text, int(code), *_]:
            raise ERRORS.get(code, OneError)(method, about, str(text), code)
    shown = repr(reply)[:80]
    raise CloudUnreachableError(
        f"{method}{f' of {about}' if about else ''}: not an answer of oned: {shown}"
    )
