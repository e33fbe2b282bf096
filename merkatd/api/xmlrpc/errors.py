"""Faults of XML-RPC, for calls that are invalid."""

from enum import IntEnum


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
