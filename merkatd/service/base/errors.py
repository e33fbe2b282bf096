"""Why a request is refused: wrong, forbidden, missing, not now."""

from enum import IntEnum


class QuestionError(Exception):
    """A question that can't be answered; the message says what would be right."""


class TryAgainError(QuestionError):
    """A question that may be answered if it is asked again."""


NO_ID = -1


class Code(IntEnum):
    """Why a call was not done."""

    AUTHENTICATION = 256
    AUTHORIZATION = 512
    NO_EXISTS = 1024
    ACTION = 2048
    RPC_API = 4096
    INTERNAL = 8192


class RequestError(Exception):
    """A call that is answered with failure."""

    def __init__(self, code: Code, text: str, oid: int = NO_ID) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.oid = oid


class TooManyRequestsError(RequestError):
    """A call of a caller that is over its limits: its answer can wait."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.ACTION, text)
