"""Refusals with oned's texts, and XML-RPC's own faults."""

from __future__ import annotations

AUTHENTICATION = 256
AUTHORIZATION = 512
NO_EXISTS = 1024
ACTION = 2048
RPC_API = 4096
INTERNAL = 8192
ALLOCATE = 16384
UNKNOWN_METHOD = -506
NO_CALL = -503
WRONG_TYPE = -501


class OneRefusal(Exception):  # noqa: N818 - the protocol calls it neither error nor exception
    """A call that oned answers with failure."""

    def __init__(self, code: int, text: str, oid: int = -1) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.oid = oid


class OneFault(Exception):  # noqa: N818 - XML-RPC's own name
    """A call that breaks XML-RPC's own rules."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
