"""How a call is refused: OpenNebula's codes and texts, and XML-RPC's own faults."""

from enum import IntEnum


class FaultCode(IntEnum):
    """Why a call was not even taken for one."""

    WRONG_TYPE = -501
    NO_CALL = -503
    UNKNOWN_METHOD = -506
    TOO_LARGE = -509


class RpcFault(Exception):  # noqa: N818 - XML-RPC's own word
    """A call that XML-RPC itself refuses."""

    def __init__(self, code: FaultCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
