"""The client of oned: calls with a session, bounded time and number, and typed errors.

If the connection fails, the client repeats calls that can be repeated without harm: reads of pools
and objects, and appending to a template. Other calls may have been executed or not: the next
observation shows the result.
"""

import random
import re
import xmlrpc.client
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from twisted.internet.defer import DeferredSemaphore

from merkatd.base.backoff import Backoff
from merkatd.base.clock import Clock
from merkatd.base.deferreds import wait_seconds, within
from merkatd.opennebula.rpc.errors import (
    NOT_CALLED,
    LongAnswerError,
    OneAuthenticationError,
    OneBadCallError,
    OneError,
    OneForbiddenError,
    value_of,
)
from merkatd.opennebula.rpc.http_reply import HEAD_BYTES, TooLongError
from merkatd.opennebula.rpc.server_dialect import ServerDialect, dialect_of
from merkatd.opennebula.rpc.transport import VMS_BYTES, Transport
from merkatd.opennebula.rpc.xml_elements import BrokenError, only_child
from merkatd.scheduler.base.ports import CloudUnreachableError

ALL_USERS = -2
NOT_DONE, ANY_STATE, STATE_DONE = -1, -2, 6
"""States of the VMs that a pool call returns."""

_DEFAULT_DATASTORE = -1
_SAVE = 0
_APPEND = 1
_ALL = (ALL_USERS, -1, -1)
_STEPS = frozenset({"one.vm.allocate", "one.vm.deploy", "one.vm.migrate", "one.vm.action"})
"""Calls for steps of the plan. The period bounds their number in flight (`period.in_flight`)."""
_READS = re.compile(
    r"one\.\w+\.(info|infoextended|infoset|monitoring|accounting|version|config|raftstatus)"
)


class Client:
    """Sends calls of a user to a server."""

    def __init__(
        self,
        transport: Transport,
        session: str,
        clock: Clock,
        *,
        timeout_s: float = 30.0,
        in_flight: int = 8,
        attempts: int = 3,
        origin: str = "",
        vms_bytes: int = VMS_BYTES,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Send calls with `session`, "user:password"; `origin` names its source in errors.

        At most `in_flight` reads and `in_flight` writes run at once; steps of the plan are not
        bounded here. So a hanging call blocks no call of another kind. A repeatable call is sent up
        to `attempts` times within its time limit, with pauses that `jitter` varies by a random
        number from 0 to 1. A text about VMs that is longer than `vms_bytes` is rejected.
        """
        self._transport = transport
        self._session = session
        self._clock = clock
        self._timeout_s = timeout_s
        self._reads, self._writes = DeferredSemaphore(in_flight), DeferredSemaphore(in_flight)
        self._backoff = Backoff(first_s=0.25, longest_s=5.0, retries=attempts - 1)
        self._origin = origin
        self._vms_bytes = vms_bytes
        self._jitter = jitter
        self._dialect: ServerDialect | None = None
        self._zone: int | None = None

    def speaking_as(self, session: str) -> "Client":
        """Return a client of another user that shares this client's connection and limits."""
        other = copy(self)
        other._session = session  # noqa: SLF001 - its own
        other._origin = ""  # noqa: SLF001 - its own
        return other

    async def call(self, method: str, *arguments: Any, about: str = "", again: bool = False) -> Any:
        """Send a call and return its value; `again` marks a call that may be repeated.

        Raise OneError if oned refuses, and CloudUnreachableError if the result is unknown.
        """
        repeatable = again or _READS.fullmatch(method) is not None
        until_s = self._clock.seconds() + self._timeout_s
        failures = 0
        while True:
            left_s = until_s - self._clock.seconds()
            try:
                return await self._once(method, arguments, about, left_s)
            except CloudUnreachableError:
                # Another server may answer next time.
                self._dialect = self._zone = None
                failures += 1
                pause_s = self._backoff.wait_s(failures, self._jitter())
                late = self._clock.seconds() + pause_s >= until_s
                if late or self._backoff.is_over(failures) or not repeatable:
                    raise
            await wait_seconds(self._clock, pause_s)

    async def _once(
        self, method: str, arguments: tuple[Any, ...], about: str, limit_s: float
    ) -> Any:
        turns = self._turns(method)
        if turns is not None:
            await turns.acquire()
        try:
            return value_of(await self._reply(method, arguments, about, limit_s), method, about)
        except (OneAuthenticationError, OneForbiddenError) as error:
            raise self._advised(error) from None
        finally:
            if turns is not None:
                turns.release()

    def _turns(self, method: str) -> DeferredSemaphore | None:
        """Return the semaphore that bounds this kind of calls, None for steps of the plan."""
        if method in _STEPS:
            return None
        return self._reads if _READS.fullmatch(method) else self._writes

    def _advised(self, error: OneError) -> OneError:
        """Return the error with a way out in its message."""
        who = self._session.partition(":")[0] or "nobody"
        if isinstance(error, OneAuthenticationError):
            origin = f" from {self._origin}" if self._origin else ""
            return error.with_advice(
                f"the server does not accept the login of {who!r}{origin}: expected user:password"
                " or user:token of an account of the server"
            )
        return error.with_advice(
            f"{who!r} needs a rule for this call (oneacl), or the object is locked"
        )

    async def _reply(
        self, method: str, arguments: tuple[Any, ...], about: str, limit_s: float
    ) -> Any:
        carried = self._transport.call(method, self._session, *arguments)
        subject = f"{method}{f' of {about}' if about else ''}"
        try:
            return await within(limit_s, self._clock, carried)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode in NOT_CALLED:
                raise OneBadCallError(method, about, fault.faultString, fault.faultCode) from fault
            raise CloudUnreachableError(f"{subject}: {fault.faultString}") from fault
        except TooLongError as error:
            if not _READS.fullmatch(method):
                raise CloudUnreachableError(f"{subject}: {error}") from error
            raise LongAnswerError(method, about, error.most_bytes, error.head) from None
        except (OSError, xmlrpc.client.Error) as error:
            raise CloudUnreachableError(
                f"{subject}: {str(error) or type(error).__name__}"
            ) from error
        except (ValueError, OverflowError) as error:
            # Values that XML or XML-RPC can't express: nothing was sent.
            raise OneBadCallError(method, about, str(error), 0) from error

    # -- the server ---------------------------------------------------------------------------

    async def dialect(self) -> ServerDialect:
        """Return the server's dialect; it is requested once, and again after a lost connection."""
        if self._dialect is None:
            self._dialect = dialect_of(await self._text("one.system.version"))
        return self._dialect

    async def restricted(self) -> list[str]:
        """Return the VM attributes that only administrators may set, including the site's own."""
        text = await self._text("one.system.config")
        rows = only_child(text, "OPENNEBULA_CONFIGURATION").iterfind("VM_RESTRICTED_ATTR")
        return [row.text for row in rows if row.text]

    async def zone(self) -> int:
        """Return the id of the server's zone, 0 if the server does not show it."""
        if self._zone is None:
            try:
                text = await self._text("one.system.config")
                zone_id = only_child(text, "OPENNEBULA_CONFIGURATION").findtext(
                    "FEDERATION/ZONE_ID"
                )
            except (OneForbiddenError, OneBadCallError, BrokenError):
                zone_id = None
            self._zone = int(zone_id) if zone_id and zone_id.isdecimal() else 0
        return self._zone

    # -- pools --------------------------------------------------------------------------------

    async def vm_page(self, start: int, rows: int, state: int = NOT_DONE) -> str:
        """Return `rows` VMs (at least 2), the newest first, without the `start` newest ones."""
        method = (await self.dialect()).vm_pool
        return await self._vms(method, ALL_USERS, start, -rows, state)

    async def vm_range(self, low: int, high: int | None, state: int = NOT_DONE) -> str:
        """Return the VMs with ids from `low` to `high`, or to the highest, the newest first."""
        method = (await self.dialect()).vm_pool
        return await self._vms(method, ALL_USERS, low, -1 if high is None else high, state)

    async def vm_record(self, vm: int, state: int = NOT_DONE) -> tuple[str, str]:
        """Return the beginning and the end of a VM's outline.

        OpenNebula writes the beginning before any text of the owner, and the end after all of them.
        The end is empty if the outline is too long.
        """
        try:
            text = await self._vms("one.vmpool.info", ALL_USERS, vm, vm, state)
        except LongAnswerError as error:
            return error.head[:HEAD_BYTES], ""
        return text[:HEAD_BYTES], text[-HEAD_BYTES:]

    async def host_pool(self) -> str:
        """Return all hosts; their current load is in the samples."""
        return await self._text("one.hostpool.info")

    async def host_samples(self) -> str:
        """Return the last monitoring sample of each host."""
        return await self._text("one.hostpool.monitoring", 0)

    async def cluster_pool(self) -> str:
        """Return all clusters."""
        return await self._text("one.clusterpool.info")

    async def datastore_pool(self) -> str:
        """Return all datastores."""
        return await self._text("one.datastorepool.info")

    async def network_pool(self) -> str:
        """Return all virtual networks."""
        return await self._text("one.vnpool.info", *_ALL)

    async def vm_group_pool(self) -> str:
        """Return all VM groups."""
        if not (await self.dialect()).vm_groups:
            return "<VM_GROUP_POOL/>"
        return await self._text("one.vmgrouppool.info", *_ALL)

    async def user_pool(self) -> str:
        """Return all users."""
        return await self._text("one.userpool.info")

    async def group_pool(self) -> str:
        """Return all groups of users."""
        return await self._text("one.grouppool.info")

    async def rules(self) -> str:
        """Return all access control rules."""
        return await self._text("one.acl.info")

    async def host(self, host: int) -> str:
        """Return a host."""
        return await self._text("one.host.info", host, about=f"host {host}")

    async def set_host_status(self, host: int, status: int) -> None:
        """Enable a host (0), disable it (1), or take it offline (2)."""
        await self.call("one.host.status", host, status, about=f"host {host}", again=True)

    async def append_to_host(self, host: int, template: str) -> None:
        """Append to a host's template, replacing attributes with the same names."""
        await self.call(
            "one.host.update", host, template, _APPEND, about=f"host {host}", again=True
        )

    async def user(self, user: int) -> str:
        """Return a user; -1 is the user of the session."""
        return await self._text("one.user.info", user, about=f"user {user}")

    async def user_group(self, group: int) -> str:
        """Return a group of users."""
        return await self._text("one.group.info", group, about=f"group {group}")

    async def vm_group(self, group: int) -> str:
        """Return a VM group."""
        return await self._text("one.vmgroup.info", group, about=f"VM group {group}")

    # -- VMs ----------------------------------------------------------------------------------

    async def vm(self, vm: int) -> str:
        """Return a VM with its whole history."""
        return await self._vms("one.vm.info", vm, about=f"VM {vm}")

    async def accounting(self, since_s: int) -> str:
        """Return the history records of all VMs, also DONE ones, that are open or ended later."""
        return await self._text("one.vmpool.accounting", ALL_USERS, since_s, -1)

    async def vm_set(self, vms: Sequence[int]) -> str:
        """Return the outlines of these VMs, without missing and hidden ones."""
        return await self._vms("one.vmpool.infoset", ",".join(map(str, vms)), False)

    async def allocate(self, template: str) -> int:
        """Create a pending VM and return its id."""
        return int(await self.call("one.vm.allocate", template, False, about="a new VM"))

    async def chown(self, vm: int, user: int, group: int) -> None:
        """Give a VM to a user and a group."""
        await self.call("one.vm.chown", vm, user, group, about=f"VM {vm} to user {user}")

    async def deploy(
        self, vm: int, host: int, datastore: int = _DEFAULT_DATASTORE, template: str = ""
    ) -> None:
        """Start a VM on a host, without oned's check of capacity.

        `datastore` is the system datastore; `template` is added to the VM's own.
        """
        enforce = False
        arguments = [vm, host, enforce, datastore, template]
        count = (await self.dialect()).deploy_arguments
        about = f"VM {vm} on host {host}"
        await self.call("one.vm.deploy", *arguments[:count], about=about)

    async def migrate(self, vm: int, host: int, *, live: bool = True) -> None:
        """Migrate a VM to a host, without oned's check of capacity.

        If not live, a running VM is saved, moved and continued; any other VM keeps its state.
        """
        enforce = False
        arguments = [vm, host, live, enforce, _DEFAULT_DATASTORE, _SAVE]
        count = (await self.dialect()).migrate_arguments
        about = f"VM {vm} to host {host}"
        await self.call("one.vm.migrate", *arguments[:count], about=about)

    async def action(self, action: str, vm: int) -> None:
        """Run an action without arguments on a VM."""
        await self.call("one.vm.action", action, vm, about=f"VM {vm} ({action})")

    async def append(self, vm: int, template: str) -> None:
        """Append to a VM's user template, replacing attributes with the same names."""
        await self.call("one.vm.update", vm, template, _APPEND, about=f"VM {vm}", again=True)

    async def _vms(self, method: str, *arguments: Any, about: str = "") -> str:
        """Return a text about VMs. Raise LongAnswerError if it is too long."""
        text = await self._text(method, *arguments, about=about)
        if len(text) > self._vms_bytes:
            raise LongAnswerError(method, about, self._vms_bytes, text[:HEAD_BYTES])
        return text

    async def _text(self, method: str, *arguments: Any, about: str = "") -> str:
        value = await self.call(method, *arguments, about=about)
        if not isinstance(value, str):
            raise CloudUnreachableError(f"{method}: expected a text, not {type(value).__name__}")
        return value
