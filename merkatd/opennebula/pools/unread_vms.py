"""VMs whose texts are not read: OpenNebula's own record of them, which precedes owners' texts."""

import re
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from html import unescape
from math import ceil, inf

from merkatd.base.backoff import Backoff
from merkatd.cluster.columns import NO_HOST, NO_OWNER
from merkatd.opennebula.pools.one_states import DONE
from merkatd.opennebula.pools.vm_pool import VmRow
from merkatd.opennebula.rpc.xml_elements import UnreadableError, amount_of
from merkatd.scheduler.base.ports import NO_RECORD, UNKNOWN
from merkatd.scheduler.base.ports import GuestRecord as RunRecord

TEXT_BACKOFF = Backoff(first_s=60.0, longest_s=3600.0)
MOST_OF_AN_OWNER = 8 << 20
"""The most bytes of long texts of all VMs of an owner that are read in each period."""

_EMPTY = re.compile(r"<VM_POOL\s*/>|<VM_POOL>\s*</VM_POOL>")
_RECORD = re.compile(
    r"<VM_POOL><VM><ID>(?P<id>\d{1,18})</ID><UID>(?P<owner>\d{1,18})</UID>"
    r"<GID>(?P<group>\d{1,18})</GID><UNAME>[^<]*</UNAME><GNAME>[^<]*</GNAME>"
    r"<NAME>(?P<name>[^<]*)</NAME><LAST_POLL>[^<]*</LAST_POLL>"
    r"<STATE>(?P<state>\d{1,9})</STATE><LCM_STATE>(?P<life>\d{1,9})</LCM_STATE>"
    r"(?:<PREV_STATE>\d*</PREV_STATE><PREV_LCM_STATE>\d*</PREV_LCM_STATE>)?"
    r"<RESCHED>(?P<resched>\d)</RESCHED><STIME>(?P<made>\d{1,18})</STIME><ETIME>[^<]*</ETIME>"
    r"<DEPLOY_ID>[^<]*</DEPLOY_ID>(?:<LOCK>(?:<[A-Z_]+>[^<]*</[A-Z_]+>)*</LOCK>)?"
    r"<TEMPLATE><CPU>(?P<cpu>[^<]*)</CPU><MEMORY>(?P<memory>[^<]*)</MEMORY>"
    r"<VCPU>(?P<vcpus>\d{0,9})</VCPU>"
)
"""The beginning of an outline. Names that OpenNebula accepts contain no `<`."""
_OWNER = re.compile(r"<VM_POOL><VM><ID>(?P<id>\d{1,18})</ID><UID>(?P<owner>\d{1,18})</UID>")
_PLACES = "<HISTORY_RECORDS"
_LAST_PLACE = re.compile(
    r"<HISTORY_RECORDS><HISTORY><OID>\d{1,18}</OID><SEQ>(?P<seq>\d{1,9})</SEQ>"
    r"<HOSTNAME>[^<]*(?:<!\[CDATA\[[^<]*\]\]>)?</HOSTNAME><HID>(?P<host>\d{1,18})</HID>"
    r".*</HISTORY_RECORDS></VM></VM_POOL>\s*",
    re.DOTALL,
)
_NO_PLACE = re.compile(r"<HISTORY_RECORDS\s*/></VM></VM_POOL>\s*")
"""The end of an outline without history. OpenNebula writes the history after owners' texts."""


def read_record(
    text: str, vm: int, why: str, kept: VmRow | None = None, end: str = ""
) -> VmRow | None:
    """Return a VM by OpenNebula's own record, None if it is gone. Raise UnreadableError.

    `text` is the beginning of the VM's outline, and `end` its end, if that was read. Properties
    from the owner's texts are taken from `kept`, or are missing. The host is not set: only the
    hosts show it. Of the last history record only the number is known.
    """
    if _EMPTY.match(text):
        return None
    match = _RECORD.match(text)
    if match is None or int(match["id"]) != vm:
        raise UnreadableError(f"{why}; OpenNebula's own record of the VM can't be read either")
    if int(match["state"]) == DONE:
        return None
    vcpus, cpu = int(match["vcpus"] or 0), amount_of(match["cpu"], "CPU")
    row = VmRow(
        id=vm,
        name=unescape(match["name"]),
        owner=int(match["owner"]),
        group=int(match["group"]),
        state=int(match["state"]),
        life=int(match["life"]),
        host=NO_HOST,
        cpu=cpu,
        vcpus=vcpus or 1,
        size_cores=vcpus or ceil(cpu),
        memory_mib=int(amount_of(match["memory"], "MEMORY")),
        movable=False,
        pinned=False,
        attributes={},
        message="",
        leaves=match["resched"] == "1",
        made_s=float(match["made"]),
        record=RunRecord(_last_number(end)),
        boots_mib=inf,
        by_record=why,
    )
    if kept is None:
        return row
    return row._replace(
        movable=kept.movable,
        pinned=kept.pinned,
        attributes=kept.attributes,
        message=kept.message,
        wants=kept.wants,
        member=kept.member,
        stay=kept.stay,
        priority=kept.priority,
        actions=kept.actions,
        boots_mib=kept.boots_mib,
    )


def recorded_state(text: str, vm: int) -> tuple[int, int]:
    """Return STATE and LCM_STATE from the beginning of an outline. Raise UnreadableError."""
    match = _RECORD.match(text)
    if match is None or int(match["id"]) != vm:
        raise UnreadableError("OpenNebula's own record of the VM can't be read")
    return int(match["state"]), int(match["life"])


def recorded_owner(text: str, vm: int) -> int:
    """Return the VM's owner from the beginning of its outline, NO_OWNER if it has none."""
    match = _OWNER.match(text)
    return NO_OWNER if match is None or int(match["id"]) != vm else int(match["owner"])


def _last_number(end: str) -> int:
    """Return the last history record's number, NO_RECORD.seq without one, UNKNOWN if unreadable."""
    last = _last_place(end)
    if _NO_PLACE.fullmatch(last):
        return NO_RECORD.seq
    match = _LAST_PLACE.fullmatch(last)
    return UNKNOWN if match is None else int(match["seq"])


def last_host(end: str) -> int:
    """Return the last history record's host, from the end of an outline. Raise UnreadableError."""
    last = _last_place(end)
    if _NO_PLACE.fullmatch(last):
        return NO_HOST
    match = _LAST_PLACE.fullmatch(last)
    if match is None:
        raise UnreadableError("OpenNebula's own record of the VM's host can't be read")
    return int(match["host"])


def _last_place(end: str) -> str:
    return end[end.rfind(_PLACES) :] if _PLACES in end else ""


def located(vm: VmRow, charged_on: Mapping[int, list[int]]) -> VmRow:
    """Return the VM with the host that counts it, if its history was not read."""
    if not vm.by_record or vm.id not in charged_on:
        return vm
    return vm._replace(host=charged_on[vm.id][-1])


def vms_beyond_bound(vms: Mapping[int, VmRow], lengths: Mapping[int, int]) -> frozenset[int]:
    """Return the VMs whose texts exceed their owner's bound; the longest texts are dropped first.

    `lengths` are the bytes of long texts. This is needed because the length of a text is bounded,
    but not the number of an owner's texts.
    """
    total: Counter[int] = Counter()
    unreadable = []
    for vm in sorted(lengths.keys() & vms.keys(), key=lambda vm: (lengths[vm], vm)):
        total[vms[vm].owner] += lengths[vm]
        if total[vms[vm].owner] > MOST_OF_AN_OWNER:
            unreadable.append(vm)
    return frozenset(unreadable)


@dataclass(slots=True)
class _Rest:
    why: str
    until_s: float
    failures: int
    kept: VmRow | None


class SeldomRead:
    """VMs whose texts are read seldom, because they are long or not XML."""

    def __init__(self) -> None:
        self._rests: dict[int, _Rest] = {}

    def __bool__(self) -> bool:
        return bool(self._rests)

    def at(self, now_s: float) -> list[int]:
        """Return the VMs whose texts must not be read now, by ascending id."""
        return sorted(vm for vm, rest in self._rests.items() if now_s < rest.until_s)

    def why(self, vm: int) -> str:
        """Return why a VM's texts are not read."""
        return self._rests[vm].why

    def kept(self, vm: int) -> VmRow | None:
        """Return the VM as of the last reading of its texts, None if they were never read."""
        rest = self._rests.get(vm)
        return None if rest is None else rest.kept

    def rest(self, vm: int, why: str, now_s: float, kept: VmRow | None = None) -> None:
        """Don't read a VM's texts for some time, which doubles each time."""
        before = self._rests.get(vm)
        failures = 1 if before is None else before.failures + 1
        self._rests[vm] = _Rest(why, now_s + TEXT_BACKOFF.wait_s(failures), failures, kept)

    def wake(self, vm: int) -> None:
        """Read a VM like all others again, or forget it if it is gone."""
        self._rests.pop(vm, None)

    def wake_but(self, long: AbstractSet[int], known: AbstractSet[int]) -> None:
        """Read all known VMs like others again, except the long ones."""
        for vm in [vm for vm in self._rests if vm in known and vm not in long]:
            del self._rests[vm]
