"""oned's calls by name: the session goes with each, time and number are bounded, errors typed.

A call that may be repeated without harm is, where the way to the server fails: pools and
objects are read, and a text appended that stands there already changes nothing. Whatever else
was sent may have been done; what became of it is for the next observation to tell.
"""

import random
import re
import xmlrpc.client
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from twisted.internet.defer import Deferred, DeferredSemaphore

from merkatd.base.deferreds import Time, within
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
from merkatd.opennebula.rpc.server_dialect import Dialect, dialect_of
from merkatd.opennebula.rpc.transport import VMS_BYTES, Transport
from merkatd.opennebula.rpc.xml_elements import BrokenError, only_child
from merkatd.scheduler.base.ports import CloudUnreachableError

ALL_USERS = -2
NOT_DONE, ANY_STATE, STATE_DONE = -1, -2, 6
"""Which VMs a pool shows."""

_DEFAULT_DATASTORE = -1
_SAVE = 0
_APPEND = 1
_ALL = (ALL_USERS, -1, -1)
_STEPS = frozenset({"one.vm.allocate", "one.vm.deploy", "one.vm.migrate", "one.vm.action"})
"""Steps of the plan. The period bounds how many are in flight (`period.in_flight`)."""
_READS = re.compile(
    r"one\.\w+\.(info|infoextended|infoset|monitoring|accounting|version|config|raftstatus)"
)
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 5.0


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
        attempts: int = 3,
        origin: str = "",
        vms_bytes: int = VMS_BYTES,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Speak as `session`, "user:password", of which `origin` says where it was found.

        At most `in_flight` reads are under way at once, and as many calls that write; steps of the
        plan are not bounded here. So a call that hangs holds up none of another kind. A call
        that may be repeated is made up to `attempts` times within its time, after pauses that
        `jitter` draws from 0 to 1. A text about VMs that is longer than `vms_bytes` is not taken.
        """
        self._transport = transport
        self._session = session
        self._clock = clock
        self._timeout_s = timeout_s
        self._reads, self._writes = DeferredSemaphore(in_flight), DeferredSemaphore(in_flight)
        self._attempts = attempts
        self._origin = origin
        self._vms_bytes = vms_bytes
        self._jitter = jitter
        self._dialect: Dialect | None = None
        self._zone: int | None = None

    def speaking_as(self, session: str) -> "Client":
        """Return a client of another user, which shares this one's way, limits and turns."""
        other = copy(self)
        other._session = session  # noqa: SLF001 - its own
        other._origin = ""  # noqa: SLF001 - its own
        return other

    async def call(self, method: str, *arguments: Any, about: str = "", again: bool = False) -> Any:
        """The value that a call answers with; `again` where it may be made twice.

        Raises OneError where oned says no, and UnreachableError where nobody knows what it did.
        """
        repeatable = again or _READS.fullmatch(method) is not None
        until_s = self._clock.seconds() + self._timeout_s
        attempt = 0
        while True:
            attempt += 1
            left_s = until_s - self._clock.seconds()
            try:
                return await self._once(method, arguments, about, left_s)
            except CloudUnreachableError:
                # Another server may answer next time.
                self._dialect = self._zone = None
                pause_s = self._pause_s(attempt)
                last = attempt >= self._attempts or self._clock.seconds() + pause_s >= until_s
                if last or not repeatable:
                    raise
            await self._pass(pause_s)

    def _pause_s(self, attempt: int) -> float:
        """Twice as long each time, less what chance takes off: clients must not march in step."""
        longest_s = min(_FIRST_PAUSE_S * 2.0 ** (attempt - 1), _LONGEST_PAUSE_S)
        return longest_s * (1 + self._jitter()) / 2

    async def _pass(self, pause_s: float) -> None:
        over: Deferred[None] = Deferred()
        self._clock.callLater(pause_s, over.callback, None)
        await over

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
        """What bounds the calls of this kind; None for the plan's steps."""
        if method in _STEPS:
            return None
        return self._reads if _READS.fullmatch(method) else self._writes

    def _advised(self, error: OneError) -> OneError:
        """The error with what would be right."""
        who = self._session.partition(":")[0] or "nobody"
        if isinstance(error, OneAuthenticationError):
            origin = f" from {self._origin}" if self._origin else ""
            return error.with_advice(
                f"the login of {who!r}{origin} is not the server's: put user:password, or"
                " user:token, of an account there"
            )
        return error.with_advice(f"{who!r} needs a rule for it (oneacl), or the object is locked")

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
            # What XML or XML-RPC can't carry is found before anything is sent.
            raise OneBadCallError(method, about, str(error), 0) from error

    # -- the server ---------------------------------------------------------------------------

    async def dialect(self) -> Dialect:
        """How this server wants to be spoken to; asked once, and again after the way was lost."""
        if self._dialect is None:
            self._dialect = dialect_of(await self._text("one.system.version"))
        return self._dialect

    async def restricted(self) -> list[str]:
        """Return the attributes of VMs that only administrators may set, every site's own too."""
        text = await self._text("one.system.config")
        found = only_child(text, "OPENNEBULA_CONFIGURATION").iterfind("VM_RESTRICTED_ATTR")
        return [row.text for row in found if row.text]

    async def zone(self) -> int:
        """The server's own zone; 0 where it does not tell us."""
        if self._zone is None:
            try:
                text = await self._text("one.system.config")
                found = only_child(text, "OPENNEBULA_CONFIGURATION").findtext("FEDERATION/ZONE_ID")
            except (OneForbiddenError, OneBadCallError, BrokenError):
                found = None
            self._zone = int(found) if found and found.isdecimal() else 0
        return self._zone

    # -- pools --------------------------------------------------------------------------------

    async def vm_page(self, start: int, rows: int, state: int = NOT_DONE) -> str:
        """So many VMs (at least 2), the newest first, after leaving out `start` of them."""
        method = (await self.dialect()).vm_pool
        return await self._vms(method, ALL_USERS, start, -rows, state)

    async def vm_range(self, low: int, high: int | None, state: int = NOT_DONE) -> str:
        """The VMs with ids from `low` to `high`, or to the highest, the newest first."""
        method = (await self.dialect()).vm_pool
        return await self._vms(method, ALL_USERS, low, -1 if high is None else high, state)

    async def vm_record(self, vm: int, state: int = NOT_DONE) -> tuple[str, str]:
        """What OpenNebula says of a VM before any of its owner's texts, and what after all of them.

        They are the two ends of its outline; the second is empty where the outline is too long.
        """
        try:
            text = await self._vms("one.vmpool.info", ALL_USERS, vm, vm, state)
        except LongAnswerError as error:
            return error.head[:HEAD_BYTES], ""
        return text[:HEAD_BYTES], text[-HEAD_BYTES:]

    async def host_pool(self) -> str:
        """All hosts; their live load is in the samples."""
        return await self._text("one.hostpool.info")

    async def host_samples(self) -> str:
        """The last monitoring sample of each host."""
        return await self._text("one.hostpool.monitoring", 0)

    async def cluster_pool(self) -> str:
        """All clusters."""
        return await self._text("one.clusterpool.info")

    async def datastore_pool(self) -> str:
        """All datastores."""
        return await self._text("one.datastorepool.info")

    async def network_pool(self) -> str:
        """All virtual networks."""
        return await self._text("one.vnpool.info", *_ALL)

    async def vm_group_pool(self) -> str:
        """All VM groups."""
        if not (await self.dialect()).vm_groups:
            return "<VM_GROUP_POOL/>"
        return await self._text("one.vmgrouppool.info", *_ALL)

    async def user_pool(self) -> str:
        """All users."""
        return await self._text("one.userpool.info")

    async def group_pool(self) -> str:
        """All groups of users."""
        return await self._text("one.grouppool.info")

    async def rules(self) -> str:
        """All access control rules."""
        return await self._text("one.acl.info")

    async def host(self, host: int) -> str:
        """One host."""
        return await self._text("one.host.info", host, about=f"host {host}")

    async def user(self, user: int) -> str:
        """One user; -1 is the session's own."""
        return await self._text("one.user.info", user, about=f"user {user}")

    # -- VMs ----------------------------------------------------------------------------------

    async def vm(self, vm: int) -> str:
        """One VM with all its history."""
        return await self._vms("one.vm.info", vm, about=f"VM {vm}")

    async def accounting(self, since_s: int) -> str:
        """The history records of all VMs, done or not, that ended later than this or not at all."""
        return await self._text("one.vmpool.accounting", ALL_USERS, since_s, -1)

    async def vm_set(self, vms: Sequence[int]) -> str:
        """The outlines of these VMs, those left out that are not there or not ours to see."""
        return await self._vms("one.vmpool.infoset", ",".join(map(str, vms)), False)

    async def allocate(self, template: str) -> int:
        """The id of a new VM, pending."""
        return int(await self.call("one.vm.allocate", template, False, about="a new VM"))

    async def chown(self, vm: int, user: int, group: int) -> None:
        """Give a VM to a user and a group."""
        about = f"VM {vm} to user {user}"
        await self.call("one.vm.chown", vm, user, group, about=about)

    async def deploy(
        self, vm: int, host: int, datastore: int = _DEFAULT_DATASTORE, template: str = ""
    ) -> None:
        """Start a VM on a host, whether oned thinks that it fits or not.

        `datastore` is the system datastore, `template` what is added to the VM's own.
        """
        enforce = False
        arguments = [vm, host, enforce, datastore, template]
        count = (await self.dialect()).deploy_arguments
        about = f"VM {vm} on host {host}"
        await self.call("one.vm.deploy", *arguments[:count], about=about)

    async def migrate(self, vm: int, host: int) -> None:
        """Move a VM live to a host, whether oned thinks that it fits or not."""
        live, enforce = True, False
        arguments = [vm, host, live, enforce, _DEFAULT_DATASTORE, _SAVE]
        count = (await self.dialect()).migrate_arguments
        about = f"VM {vm} to host {host}"
        await self.call("one.vm.migrate", *arguments[:count], about=about)

    async def action(self, action: str, vm: int) -> None:
        """Do to a VM what needs no more than a word."""
        await self.call("one.vm.action", action, vm, about=f"VM {vm} ({action})")

    async def append(self, vm: int, template: str) -> None:
        """Add to a VM's user template, in place of what has the same names."""
        await self.call("one.vm.update", vm, template, _APPEND, about=f"VM {vm}", again=True)

    async def _vms(self, method: str, *arguments: Any, about: str = "") -> str:
        """A text about VMs. Raises LongAnswerError where it is longer than is taken."""
        text = await self._text(method, *arguments, about=about)
        if len(text) > self._vms_bytes:
            raise LongAnswerError(method, about, self._vms_bytes, text[:HEAD_BYTES])
        return text

    async def _text(self, method: str, *arguments: Any, about: str = "") -> str:
        value = await self.call(method, *arguments, about=about)
        if not isinstance(value, str):
            raise CloudUnreachableError(
                f"{method}: a text was expected, not {type(value).__name__}"
            )
        return value
