"""Transport of calls to a server, and a guard that blocks changes unless the daemon leads.

Between the reading of a VM and the call that deploys it, the process may be stopped for minutes,
and another daemon may have become the leader. So the guard checks the lease just before each call.
"""

import re
import xmlrpc.client
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from merkatd.base.clock import Executor
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.opennebula.rpc.http_reply import NoReplyError, decoded
from merkatd.opennebula.rpc.plain_http import PlainHttp
from merkatd.opennebula.rpc.secure_http import SecureHttp, TrustError

__all__ = [
    "Executor",
    "HttpTransport",
    "Transport",
    "TrustError",
]


Result = TypeVar("Result")
_BODY_BYTES = 1 << 28
VMS_BYTES = 1 << 25
"""The most bytes of an answer about VMs, which contains owners' texts: longer answers are requested
again in smaller pieces. A thousand ordinary VMs take 6 MB."""
_OF_VMS = re.compile(r"one\.vm(pool\.(info|infoextended|infoset)|\.info)")
_SMALL_BYTES = 1 << 15
"""The most bytes of an answer that is parsed at once: the executor would take longer."""


class Transport(Protocol):
    """Carries calls to a server."""

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method and return the array of the answer.

        Raise OSError or xmlrpc.client.Error if there is no valid answer; ValueError or
        OverflowError, before anything is sent, if the arguments can't be written in XML-RPC.
        """


class HttpTransport:
    """Calls a server over HTTP, and parses answers on the executor."""

    def __init__(
        self,
        reactor: Any,
        endpoint: str,
        executor: Executor,
        *,
        connections: int = 8,
        body_bytes: int = _BODY_BYTES,
        vms_bytes: int = VMS_BYTES,
        authorities: Path | None = None,
    ) -> None:
        """Keep at most this number of idle `connections`. Raise TrustError.

        An answer may have at most `body_bytes`, an answer about VMs at most `vms_bytes`.
        `authorities` is a file of certificates (PEM) that are trusted instead of the system's.
        """
        self._executor = executor
        url = urlsplit(endpoint)
        self._body_bytes, self._vms_bytes = body_bytes, min(vms_bytes, body_bytes)
        self._way: PlainHttp | SecureHttp
        if url.scheme == "https":
            self._way = SecureHttp(reactor, url, authorities=authorities, connections=connections)
        else:
            self._way = PlainHttp(reactor, url, connections=connections)

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method. Raise OSError, NoReplyError, or xmlrpc.client.Fault."""
        body = xmlrpc.client.dumps(arguments, method).encode()
        most_bytes = self._vms_bytes if _OF_VMS.fullmatch(method) else self._body_bytes
        chunks = await self._way.exchange(body, most_bytes)
        if sum(map(len, chunks)) <= _SMALL_BYTES:
            value = decoded(chunks)
        else:
            value = await self._executor.run(partial(decoded, chunks))
        if not isinstance(value, list):
            raise NoReplyError("the answer must be an array")
        return value

    async def close(self) -> None:
        """Close all idle connections."""
        await self._way.close()


_LOOKS = (
    "info",
    "infoextended",
    "infoset",
    "monitoring",
    "version",
    "config",
    "raftstatus",
    "table",
)
"""The endings of the names of calls that change nothing."""


class LeaderOnlyTransport:
    """A `Transport` over another one that checks the lease before each change."""

    def __init__(self, transport: Transport, certain: Callable[[], Awaitable[None]]) -> None:
        """`certain` raises LeaseLostError if another daemon may be acting already."""
        self._transport = transport
        self._certain = certain

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call over the other transport. Raise ConnectionAbortedError if the lease is lost."""
        if not method.endswith(_LOOKS):
            try:
                await self._certain()
            except LeaseLostError as error:
                raise ConnectionAbortedError(f"not sent: {error}") from error
        return await self._transport.call(method, *arguments)
