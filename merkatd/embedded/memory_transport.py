"""The transport to a cloud in the same process: XML-RPC's marshalling without sockets."""

from __future__ import annotations

import xmlrpc.client
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from merkatd.base.deferreds import wait_seconds
from merkatd.embedded.machines.faults import FaultKind
from merkatd.embedded.model.errors import OneFault
from merkatd.syntax.template_parser import UNSENDABLE

if TYPE_CHECKING:
    from merkatd.embedded.cloud import CallReply, EmbeddedCloud
    from merkatd.embedded.methods.call import Plain


class ConnectionDropped(ConnectionError):  # noqa: N818 - named like the connection errors
    """The connection ended before the reply arrived."""


class MemoryTransport:
    """Direct calls to a cloud. Without faults, awaiting `call` returns at once."""

    def __init__(self, cloud: EmbeddedCloud) -> None:
        self._cloud = cloud

    async def call(self, method: str, *arguments: Any) -> list[Plain]:
        """Call a method; values and exceptions are the same as over a socket."""
        sent = [carried(argument) for argument in arguments]
        try:
            reply = self._cloud.call(method, sent)
        except OneFault as fault:
            raise xmlrpc.client.Fault(fault.code, fault.text) from None
        await self._delivered(reply)
        answer = carried(reply.plain())
        if not isinstance(answer, list):
            raise TypeError(method)
        return answer

    async def _delivered(self, reply: CallReply) -> None:
        verdict = reply.verdict
        if verdict.fate is FaultKind.HANG:
            await Deferred[None]()
        if verdict.delay_s > 0:
            await wait_seconds(self._cloud.world.clock, verdict.delay_s)
        if verdict.fate is FaultKind.LOSE:
            raise ConnectionDropped("the connection was lost before the answer")
        if verdict.fate is FaultKind.GARBAGE:
            raise xmlrpc.client.ResponseError


def carried(value: Any) -> Plain:
    """Return a value as it arrives at the other end of an XML-RPC connection."""
    if isinstance(value, str):
        if UNSENDABLE.search(value):
            raise ValueError("XML can't carry this text's control characters")
        return value.replace("\r\n", "\n").replace("\r", "\n")
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        if not -(2**31) <= value < 2**31:
            raise OverflowError("int exceeds XML-RPC limits")
        return value
    if isinstance(value, dict):
        return {str(key): carried(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [carried(item) for item in value]
    raise TypeError(f"cannot marshal {type(value)} objects")
