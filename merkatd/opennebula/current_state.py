"""The current state of VMs, hosts and the server, read just before a step is sent.

Calls are expensive, because oned closes the connection after each call. So requests for VMs are
collected: those that arrive during a call, or right after it, wait until there are several or
until a moment has passed. The next call then reads all of them. No answer is older than its
request, and hundreds of VMs cost some tens of calls.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.base.clock import Clock, Executor
from merkatd.base.deferreds import in_parallel
from merkatd.cluster import HostState, Step
from merkatd.cluster.columns import NO_HOST
from merkatd.opennebula.pools.forged_texts import check
from merkatd.opennebula.pools.one_states import host_state
from merkatd.opennebula.pools.unread_vms import last_host, recorded_state
from merkatd.opennebula.pools.vm_pool import LONG, MOST_TAGS
from merkatd.opennebula.rpc.client import ANY_STATE, Client
from merkatd.opennebula.rpc.errors import LongAnswerError, OneError, WrongStateError
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    ids,
    object_id,
    only_child,
    rows,
    whole,
)
from merkatd.scheduler.base.ports import CloudUnreachableError, ReplyKind, StepReply

UNREAD = -2
_MAX_VMS_AT_ONCE = 8
"""The number of waiting VMs at which the next call starts at once."""
_MOMENT_S = 0.05


class VmCheck(NamedTuple):
    """The state and host of a VM, as a step needs them."""

    state: int
    life: int
    host: int
    """The host of the last history record, whether that record is closed or not.

    UNREAD if the owner's texts before it are too long.
    """


class VmChecks:
    """Reads the current state of VMs, several with each call."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._wanted: dict[int, list[Deferred[VmCheck]]] = {}
        self._looking = False
        self._next_s = 0.0
        """The time from which the next call starts, however few VMs wait for it."""
        self._alarm: Any = None

    async def at(self, vm: int) -> VmCheck:
        """Return a VM's state, not older than this request.

        Raise OneError, CloudUnreachableError, BrokenError or UnreadableError.
        """
        waiting: Deferred[VmCheck] = Deferred()
        self._wanted.setdefault(vm, []).append(waiting)
        self._look_when_due()
        return await waiting

    def _look_when_due(self) -> None:
        if self._looking:
            return
        if self._due:
            self._looking = True
            ensureDeferred(self._look())
        elif self._wanted and self._alarm is None:
            self._alarm = self._clock.callLater(_MOMENT_S, self._moment_passed)

    @property
    def _due(self) -> bool:
        enough = len(self._wanted) >= _MAX_VMS_AT_ONCE or self._clock.seconds() >= self._next_s
        return enough and bool(self._wanted)

    def _moment_passed(self) -> None:
        self._alarm, self._next_s = None, 0.0
        self._look_when_due()

    async def _look(self) -> None:
        while self._due:
            wanted, self._wanted = self._wanted, {}
            await self._look_at(wanted)
            self._next_s = self._clock.seconds() + _MOMENT_S
        self._looking = False
        self._look_when_due()

    async def _look_at(self, wanted: Mapping[int, list[Deferred[VmCheck]]]) -> None:
        try:
            vms = await self._found(sorted(wanted))
        except (BrokenError, UnreadableError, OneError):
            # A single VM, or its owner's texts, may be the cause: read each VM by itself.
            vms = {}
        except Exception as error:  # noqa: BLE001 - it is passed on to the callers
            for waiting in wanted.values():
                for each in waiting:
                    each.errback(error)
            return
        for vm, waiting in wanted.items():
            for each in waiting:
                if vm in vms:
                    each.callback(vms[vm])
                else:
                    ensureDeferred(self._alone(vm)).chainDeferred(each)

    async def _found(self, vms: list[int]) -> Mapping[int, VmCheck]:
        """Return the VMs that exist and are visible, by id."""
        if len(vms) == 1 or not (await self._client.dialect()).vm_sets:
            return {}
        text = await self._client.vm_set(vms)
        return dict(_read_vm(rows(text, "VM_POOL", "VM")))

    async def _alone(self, vm: int) -> VmCheck:
        """Read a VM that the common call did not return: its own call gives the reason.

        In that answer owner's texts also follow the history, and may forge it. If they do, take the
        host from the VM's outline; if they are too long, take the state from there too.
        """
        text = await self._text(vm)
        if text is None:
            begin, end = await self._client.vm_record(vm, ANY_STATE)
            return VmCheck(*recorded_state(begin, vm), last_host(end) if end else UNREAD)
        element = only_child(text, "VM")
        try:
            check(element, text.encode("utf-8", "replace"))
        except UnreadableError:
            _, end = await self._client.vm_record(vm, ANY_STATE)
            return _state(element, last_host(end))
        return _glance(element)

    async def _text(self, vm: int) -> str | None:
        """Return a VM's text, None if parsing it would block the event loop for long."""
        try:
            text = await self._client.vm(vm)
        except LongAnswerError:
            return None
        return None if len(text) > LONG or text.count("<") > MOST_TAGS else text


def _read_vm(elements: Iterable[Element]) -> Iterable[tuple[int, VmCheck]]:
    for element in elements:
        yield object_id(children(element, "ID")), _glance(element)


def _glance(vm: Element) -> VmCheck:
    # OpenNebula's own records are the last element of an outline. Records before them may be forged
    # by the owner (Note [Texts that forge]).
    records = next(vm.iterchildren("HISTORY_RECORDS", reversed=True), None)
    last = None if records is None or len(records) == 0 else records[-1]
    return _state(vm, NO_HOST if last is None else whole(children(last), "HID"))


def _state(vm: Element, host: int) -> VmCheck:
    """Return the VM's state; it precedes all texts, so owners can't forge it."""
    parts = children(vm, "STATE", "LCM_STATE")
    return VmCheck(whole(parts, "STATE"), whole(parts, "LCM_STATE"), host)


_SOLO, _LEADER = 0, 3
_RETRY = 2
_FRESH_S = 2.0
"""How long a host's state may be reused: hundreds of VMs may go to a host one after another."""
_MAX_HOSTS_AT_ONCE = 4
"""The number of waiting hosts from which reading the whole pool is considered."""
_DEARER = 32
"""The cost of reading a host alone, as a multiple of its cost as part of the pool."""


async def server_leads(client: Client) -> bool:
    """Return whether this server is alone or leads its zone: followers refuse all changes.

    Raise CloudUnreachableError.
    """
    try:
        status = children(only_child(await client.call("one.zone.raftstatus"), "RAFT"))
        return whole(status, "STATE") in {_SOLO, _LEADER}
    except (OneError, BrokenError, UnreadableError) as error:
        raise CloudUnreachableError(f"the server's Raft state can't be read: {error}") from error


class _HostNow(NamedTuple):
    """A host's state at `at_s` or later."""

    at_s: float
    state: int
    vms: frozenset[int]


class HostChecks:
    """Reads the current state of hosts shortly before a step is sent to them.

    Requests that arrive during a call wait for the next one. That call reads the whole pool of
    hosts if this is cheaper than reading each host.
    """

    def __init__(
        self,
        client: Client,
        executor: Executor,
        now: Callable[[], float],
        count: Callable[[], int] = lambda: 0,
    ) -> None:
        """Parse pools of hosts on `executor`; `count` returns the known number of hosts."""
        self._client = client
        self._executor = executor
        self._now = now
        self._count = count
        self._seen: dict[int, _HostNow] = {}
        self._wanted: dict[int, list[Deferred[_HostNow]]] = {}
        self._looking = False

    async def why_not(self, host: int, known: AbstractSet[int], since_s: float) -> str | None:
        """Return why no VM may be sent to a host, None if one may. Raise CloudUnreachableError.

        The reason is that the host is not on, or has a VM that is not among the `known` ones.
        A state from before `since_s` is read again.
        """
        seen = self._seen.get(host)
        if seen is None or seen.at_s < since_s or abs(self._now() - seen.at_s) >= _FRESH_S:
            try:
                seen = await self._at_next_look(host)
            except (OneError, UnreadableError) as error:
                return f"host {host} can't be read: {error}"
            except BrokenError as error:
                raise CloudUnreachableError(f"host {host}: {error}") from error
        if host_state(seen.state) is not HostState.ON:
            return f"host {host} no longer accepts VMs"
        strangers = seen.vms - known
        if strangers:
            return f"VM {min(strangers)} has arrived on host {host} in the meantime"
        return None

    async def _at_next_look(self, host: int) -> _HostNow:
        waiting: Deferred[_HostNow] = Deferred()
        self._wanted.setdefault(host, []).append(waiting)
        if not self._looking:
            self._looking = True
            ensureDeferred(self._look())
        return await waiting

    async def _look(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            outcomes = await self._outcomes(list(wanted))
            for host, outcome in outcomes.items():
                if isinstance(outcome, _HostNow):
                    self._seen[host] = outcome
            for host, waiting in wanted.items():
                outcome = outcomes[host]
                for each in waiting:
                    if isinstance(outcome, _HostNow):
                        each.callback(outcome)
                    else:
                        each.errback(outcome)
        self._looking = False

    async def _outcomes(self, hosts: Sequence[int]) -> Mapping[int, _HostNow | Exception]:
        """Return by id each of these hosts, or why it can't be read; maybe other hosts too."""
        begin_s = self._now()
        hosts_now: dict[int, _HostNow] = {}
        if len(hosts) >= _MAX_HOSTS_AT_ONCE and len(hosts) * _DEARER >= self._count():
            try:
                pool = await self._client.host_pool()
                hosts_now = await self._executor.run(lambda: dict(_read_host(pool, begin_s)))
            except Exception as error:  # noqa: BLE001 - it is passed on to the callers
                return dict.fromkeys(hosts, error)
        # Read each host that the pool did not contain: its own call gives the reason.
        missing = [host for host in hosts if host not in hosts_now]
        alone = await in_parallel(self._alone(host, begin_s) for host in missing)
        return {**hosts_now, **dict(zip(missing, alone, strict=True))}

    async def _alone(self, host: int, at_s: float) -> _HostNow | Exception:
        try:
            return _host(children(only_child(await self._client.host(host), "HOST")), at_s)
        except Exception as error:  # noqa: BLE001 - it is passed on to the callers
            return error


def _read_host(pool: str, at_s: float) -> Iterable[tuple[int, _HostNow]]:
    """Yield the hosts of a pool, without those that can't be read."""
    for element in rows(pool, "HOST_POOL", "HOST"):
        parts = children(element)
        with suppress(UnreadableError):
            yield object_id(parts), _host(parts, at_s)


def _host(parts: Mapping[str, Element], at_s: float) -> _HostNow:
    return _HostNow(at_s, whole(parts, "STATE"), frozenset(ids(parts.get("VMS", ()))))


async def is_on(client: Client, vm: int, host: int) -> bool:
    """Return whether a host counts the VM. Raise OneError or CloudUnreachableError."""
    shown = children(only_child(await client.host(host), "HOST"))
    return vm in ids(shown.get("VMS", ()))


async def start_again(client: Client, step: Step) -> StepReply:
    """Start a VM again on the host where it failed to boot. Raise CloudUnreachableError."""
    try:
        await client.call("one.vm.recover", step.vm, _RETRY, about=f"VM {step.vm}")
    except WrongStateError as error:
        return StepReply(ReplyKind.LOOK_AGAIN, str(error))
    except OneError as error:
        return StepReply(ReplyKind.REFUSED, str(error))
    return StepReply(ReplyKind.ACCEPTED)
