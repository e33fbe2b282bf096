"""XML-RPC's faults of invalid calls, and the codes of failed calls."""

from dataclasses import dataclass
from enum import IntEnum

from merkatd.service.base.errors import NO_ID


class FaultCode(IntEnum):
    """The code of a fault."""

    WRONG_TYPE = -501
    NO_CALL = -503
    UNKNOWN_METHOD = -506
    TOO_LARGE = -509


class RpcFault(Exception):  # noqa: N818 - the term of XML-RPC
    """An invalid XML-RPC call."""

    def __init__(self, code: FaultCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Code(IntEnum):
    """The code of a failed call, as in OpenNebula."""

    AUTHENTICATION = 256
    AUTHORIZATION = 512
    NO_EXISTS = 1024
    ACTION = 2048
    RPC_API = 4096
    INTERNAL = 8192


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a call that failed."""

    code: Code
    text: str
    oid: int = NO_ID
