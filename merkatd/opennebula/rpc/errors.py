"""What oned answers when it does not do what it was asked: one error for each thing to do then."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from merkatd.scheduler.base.ports import CloudUnreachableError


class OneError(Exception):
    """A call that was understood and not done. The message names call, object and oned's text."""

    def __init__(self, method: str, about: str, text: str, code: int) -> None:
        said = text.removeprefix(f"[{method}]").strip() or "no reason given"
        super().__init__(f"{method}{f' of {about}' if about else ''}: {said} (code {code})")
        self.method = method
        self.about = about
        self.text = said
        self.code = code

    def with_advice(self, advice: str) -> "OneError":
        """The same, and what would be right."""
        error = type(self)(self.method, self.about, self.text, self.code)
        error.args = (f"{error}; {advice}",)
        return error


class OneAuthenticationError(OneError):
    """The session is of nobody that oned knows."""


class OneForbiddenError(OneError):
    """The session's user may not do this, or the object is locked."""


class OneMissingError(OneError):
    """There is no such object."""


class WrongStateError(OneError):
    """The object is in no state for this, or its host has no room: look again."""


class OneBadCallError(OneError):
    """The arguments are not what the server takes."""


class OneInternalError(OneError):
    """The server failed in itself, or a template is wrong."""


class AllocateError(OneError):
    """A new object could not be made."""


class LongAnswerError(OneError):
    """The answer is longer than the client reads; `head` is its beginning."""

    def __init__(self, method: str, about: str, most_bytes: int, head: str) -> None:
        super().__init__(method, about, f"the answer takes more than {most_bytes} bytes", 0)
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
"""By oned's code."""

NOT_CALLED = frozenset({-501, -503, -506, -507, -509})
"""Faults by which XML-RPC refuses a call before oned sees it: types, syntax, name, size."""


def value_of(reply: Any, method: str, about: str) -> Any:
    """The value of an answer that says success; raises the error that it says otherwise."""
    match reply:
        case [True, value, *_]:
            return value
        case [False, text, int(code), *_]:
            raise ERRORS.get(code, OneError)(method, about, str(text), code)
    shown = repr(reply)[:80]
    raise CloudUnreachableError(
        f"{method}{f' of {about}' if about else ''}: no answer of oned: {shown}"
    )
