"""How VMs are just before something is sent to each: many that are about to be looked at together.

A server that ends a connection after each call, as oned does, makes a call dear. So the VMs
that are asked for while a look is under way, or right after one, wait until there are some or
until a moment has passed; the next look is for all of them. Nothing is older than when it was
asked for, and hundreds of VMs cost some tens of calls.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.opennebula.client import ANY_STATE, Client
from merkatd.opennebula.elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    object_id,
    one,
    rows,
    whole,
)
from merkatd.opennebula.errors import OneError
from merkatd.opennebula.forging import check
from merkatd.opennebula.records import last_host
from merkatd.opennebula.waiting import Time

NOWHERE = -1

_SOME = 8
"""So many VMs are looked at without waiting for more."""
_MOMENT_S = 0.05


class Glance(NamedTuple):
    """What steps are judged by."""

    state: int
    life: int
    host: int
    """Of the last history record, whether that is over or not."""


class Glances:
    """Looks at VMs for whoever asks."""

    def __init__(self, client: Client, clock: Time) -> None:
        self._client = client
        self._clock = clock
        self._wanted: dict[int, list[Deferred[Glance]]] = {}
        self._looking = False
        self._next_s = 0.0
        """When the next look is due, however few wait for it."""
        self._alarm: Any = None

    async def at(self, vm: int) -> Glance:
        """One VM, as it is no earlier than now.

        Raises OneError, UnreachableError, BrokenError or UnreadableError.
        """
        waiting: Deferred[Glance] = Deferred()
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
        enough = len(self._wanted) >= _SOME or self._clock.seconds() >= self._next_s
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

    async def _look_at(self, wanted: Mapping[int, list[Deferred[Glance]]]) -> None:
        try:
            found = await self._found(sorted(wanted))
        except (BrokenError, UnreadableError, OneError):
            # One of them is to blame, or its owner's texts: each is asked for by itself.
            found = {}
        except Exception as error:  # noqa: BLE001 - it is theirs who asked
            for waiting in wanted.values():
                for each in waiting:
                    each.errback(error)
            return
        for vm, waiting in wanted.items():
            for each in waiting:
                if vm in found:
                    each.callback(found[vm])
                else:
                    ensureDeferred(self._alone(vm)).chainDeferred(each)

    async def _found(self, vms: list[int]) -> Mapping[int, Glance]:
        """Those that are there and can be seen."""
        if len(vms) == 1 or not (await self._client.dialect()).vm_sets:
            return {}
        text = await self._client.vm_set(vms)
        return dict(_read(rows(text, "VM_POOL", "VM")))

    async def _alone(self, vm: int) -> Glance:
        """One that was not shown among others: its own call says why.

        There texts of its owner follow the history too. Where they forge, its outline has the host.
        """
        text = await self._client.vm(vm)
        element = one(text, "VM")
        try:
            check(element, text.encode("utf-8", "replace"))
        except UnreadableError:
            _, end = await self._client.vm_record(vm, ANY_STATE)
            return _state(element, last_host(end))
        return _glance(element)


def _read(elements: Iterable[Element]) -> Iterable[tuple[int, Glance]]:
    for element in elements:
        yield object_id(children(element, "ID")), _glance(element)


def _glance(vm: Element) -> Glance:
    # OpenNebula's own records are the last in an outline: what stands before them an owner may have
    # forged (Note [Texts that forge]).
    records = next(vm.iterchildren("HISTORY_RECORDS", reversed=True), None)
    last = None if records is None or len(records) == 0 else records[-1]
    return _state(vm, NOWHERE if last is None else whole(children(last), "HID"))


def _state(vm: Element, host: int) -> Glance:
    """The states stand before all texts."""
    parts = children(vm, "STATE", "LCM_STATE")
    return Glance(whole(parts, "STATE"), whole(parts, "LCM_STATE"), host)
