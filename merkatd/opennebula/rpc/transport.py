"""The way of calls to a server, and a guard that lets no change through unless we lead.

Between the look at a VM and the call that deploys it the process can be stopped for minutes,
and another daemon have begun to act. So the last question before a call is put here.
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
"""The longest answer about VMs, whose texts their owners write: a longer one is asked for in
smaller pieces. A thousand ordinary VMs take 6 MB."""
_OF_VMS = re.compile(r"one\.vm(pool\.(info|infoextended|infoset)|\.info)")
_SMALL_BYTES = 1 << 15
"""An answer that is taken apart in less time than it takes to have that done elsewhere."""


class Transport(Protocol):
    """Carries calls to a server."""

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """The array that the server answers with.

        Raises OSError or xmlrpc.client.Error where there is none; ValueError or OverflowError
        where the arguments can't be carried, before anything is sent.
        """


class HttpTransport:
    """Calls a server over HTTP; answers are taken apart where the executor runs."""

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
        """Keep at most so many `connections`.

        No answer may be longer than `body_bytes`, and none about VMs longer than `vms_bytes`.

        `authorities` is a file of certificates (PEM) that are trusted instead of the system's.
        Raises TrustError.
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
        """Call a method. Raises OSError, NoReplyError, or xmlrpc.client.Fault."""
        body = xmlrpc.client.dumps(arguments, method).encode()
        most_bytes = self._vms_bytes if _OF_VMS.fullmatch(method) else self._body_bytes
        chunks = await self._way.exchange(body, most_bytes)
        if sum(map(len, chunks)) <= _SMALL_BYTES:
            value = decoded(chunks)
        else:
            value = await self._executor.run(partial(decoded, chunks))
        if not isinstance(value, list):
            raise NoReplyError("the answer is no array")
        return value

    async def close(self) -> None:
        """End the connections that are kept."""
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
"""What calls are called that change nothing."""


class LeaderOnlyTransport:
    """Implements `transport.Transport` over another one."""

    def __init__(self, transport: Transport, certain: Callable[[], Awaitable[None]]) -> None:
        """`certain` raises LeaseLostError where another daemon may be acting already."""
        self._transport = transport
        self._certain = certain

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """As the other transport. Raises ConnectionAbortedError where we may not act."""
        if not method.endswith(_LOOKS):
            try:
                await self._certain()
            except LeaseLostError as error:
                raise ConnectionAbortedError(f"not sent: {error}") from error
        return await self._transport.call(method, *arguments)
