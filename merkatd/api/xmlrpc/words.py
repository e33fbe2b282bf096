"""How a call is refused: OpenNebula's codes and texts, and XML-RPC's own faults."""

from enum import IntEnum

NO_ID = -1


class Code(IntEnum):
    """Why a call was not done."""

    AUTHENTICATION = 256
    AUTHORIZATION = 512
    NO_EXISTS = 1024
    ACTION = 2048
    RPC_API = 4096
    INTERNAL = 8192


class FaultCode(IntEnum):
    """Why a call was not even taken for one."""

    WRONG_TYPE = -501
    NO_CALL = -503
    UNKNOWN_METHOD = -506
    TOO_LARGE = -509


class Refusal(Exception):  # noqa: N818 - the protocol calls it neither error nor exception
    """A call that is answered with failure."""

    def __init__(self, code: Code, text: str, oid: int = NO_ID) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.oid = oid


class TooManyRefusal(Refusal):
    """A call of a caller that is over its limits: its answer can wait."""

    def __init__(self, text: str) -> None:
        super().__init__(Code.ACTION, text)


class RpcFault(Exception):  # noqa: N818 - XML-RPC's own word
    """A call that XML-RPC itself refuses."""

    def __init__(self, code: FaultCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
