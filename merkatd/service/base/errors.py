"""Errors of requests: wrong arguments, forbidden, missing, not possible now."""

from enum import IntEnum


class QuestionError(Exception):
    """A question that can't be answered; the message names the accepted values."""


class TryAgainError(QuestionError):
    """A question that can't be answered now, but may be answered later."""


NO_ID = -1


class Code(IntEnum):
    """The code of a failed call, as in OpenNebula."""

    AUTHENTICATION = 256
    AUTHORIZATION = 512
    NO_EXISTS = 1024
    ACTION = 2048
    RPC_API = 4096
    INTERNAL = 8192


class RequestError(Exception):
    """A failed call, with the code and text of its answer."""

    def __init__(self, code: Code, text: str, oid: int = NO_ID) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.oid = oid


class TooManyRequestsError(RequestError):
    """A call of a caller that exceeds its limits: the server may delay the answer."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.ACTION, text)
