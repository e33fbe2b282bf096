"""oned's calls by name: the session goes with each, time and number are bounded, errors typed."""

import xmlrpc.client
from typing import Any

from twisted.internet.defer import DeferredSemaphore

from merkatd.opennebula.errors import NOT_CALLED, BadCallError, value_of
from merkatd.opennebula.transport import Transport
from merkatd.opennebula.waiting import Time, within
from merkatd.scheduler.ports import UnreachableError

ALL_USERS = -2
NOT_DONE, ANY_STATE, STATE_DONE = -1, -2, 6
"""Which VMs a pool shows."""

_DEFAULT_DATASTORE = -1
_SAVE = 0
_APPEND = 1


class Client:
    """Calls of one user to one server."""

    def __init__(
        self,
        transport: Transport,
        session: str,
        clock: Time,
        *,
        timeout_s: float = 30.0,
        in_flight: int = 8,
    ) -> None:
        """`session` is "user:password"; `in_flight` calls at most are under way at once."""
        self._transport = transport
        self._session = session
        self._clock = clock
        self._timeout_s = timeout_s
        self._turns = DeferredSemaphore(in_flight)

    async def call(self, method: str, *arguments: Any, about: str = "") -> Any:
        """The value that a call answers with.

        Raises OneError where oned says no, and UnreachableError where nobody knows what it did.
        """
        await self._turns.acquire()
        try:
            return value_of(await self._reply(method, arguments, about), method, about)
        finally:
            self._turns.release()

    async def _reply(self, method: str, arguments: tuple[Any, ...], about: str) -> Any:
        carried = self._transport.call(method, self._session, *arguments)
        subject = f"{method}{f' of {about}' if about else ''}"
        try:
            return await within(self._timeout_s, self._clock, carried)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode in NOT_CALLED:
                raise BadCallError(method, about, fault.faultString, fault.faultCode) from fault
            raise UnreachableError(f"{subject}: {fault.faultString}") from fault
        except (OSError, xmlrpc.client.Error) as error:
            raise UnreachableError(f"{subject}: {str(error) or type(error).__name__}") from error
        except (ValueError, OverflowError) as error:
            # What XML or XML-RPC can't carry is found before anything is sent.
            raise BadCallError(method, about, str(error), 0) from error

    # -- pools --------------------------------------------------------------------------------

    async def vm_page(self, start: int, rows: int, state: int = NOT_DONE) -> str:
        """So many VMs (at least 2), the newest first, after leaving out `start` of them."""
        return await self._text("one.vmpool.infoextended", ALL_USERS, start, -rows, state)

    async def vms_from(self, vm: int) -> str:
        """The VMs with this id and higher ones, done or not."""
        return await self._text("one.vmpool.infoextended", ALL_USERS, vm, -1, ANY_STATE)

    async def host_pool(self) -> str:
        """All hosts; their live load is in the samples."""
        return await self._text("one.hostpool.info")

    async def host_samples(self) -> str:
        """The last monitoring sample of each host."""
        return await self._text("one.hostpool.monitoring", 0)

    async def cluster_pool(self) -> str:
        """All clusters."""
        return await self._text("one.clusterpool.info")

    async def host(self, host: int) -> str:
        """One host."""
        return await self._text("one.host.info", host, about=f"host {host}")

    async def user(self, user: int) -> str:
        """One user; -1 is the session's own."""
        return await self._text("one.user.info", user, about=f"user {user}")

    # -- VMs ----------------------------------------------------------------------------------

    async def vm(self, vm: int) -> str:
        """One VM with all its history."""
        return await self._text("one.vm.info", vm, about=f"VM {vm}")

    async def allocate(self, template: str) -> int:
        """The id of a new VM, pending."""
        return int(await self.call("one.vm.allocate", template, False, about="a new VM"))

    async def chown(self, vm: int, user: int, group: int) -> None:
        """Give a VM to a user and a group."""
        about = f"VM {vm} to user {user}"
        await self.call("one.vm.chown", vm, user, group, about=about)

    async def deploy(self, vm: int, host: int) -> None:
        """Start a VM on a host, whether oned thinks that it fits or not."""
        enforce = False
        about = f"VM {vm} on host {host}"
        await self.call("one.vm.deploy", vm, host, enforce, about=about)

    async def migrate(self, vm: int, host: int) -> None:
        """Move a VM live to a host, whether oned thinks that it fits or not."""
        live, enforce = True, False
        about = f"VM {vm} to host {host}"
        await self.call(
            "one.vm.migrate", vm, host, live, enforce, _DEFAULT_DATASTORE, _SAVE, about=about
        )

    async def action(self, action: str, vm: int) -> None:
        """Do to a VM what needs no more than a word."""
        await self.call("one.vm.action", action, vm, about=f"VM {vm} ({action})")

    async def append(self, vm: int, template: str) -> None:
        """Add to a VM's user template, in place of what has the same names."""
        await self.call("one.vm.update", vm, template, _APPEND, about=f"VM {vm}")

    async def _text(self, method: str, *arguments: Any, about: str = "") -> str:
        value = await self.call(method, *arguments, about=about)
        if not isinstance(value, str):
            raise UnreachableError(f"{method}: a text was expected, not {type(value).__name__}")
        return value
