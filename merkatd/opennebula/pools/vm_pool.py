"""The parser of the VM pool: each VM is parsed by itself, so that a bad one harms no other."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from merkatd.cluster.columns import NO_HOST
from merkatd.opennebula.pools.constraint_facts import DiskLocation, RoleMember, VmRequirements
from merkatd.opennebula.pools.forged_texts import check
from merkatd.opennebula.pools.vm_history import last_record, record_of
from merkatd.opennebula.pools.vm_templates import (
    LastRecord,
    actions_of,
    member_of,
    stay_of,
    wants_of,
)
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    UnreadableError,
    amount,
    children,
    ids,
    measured,
    object_id,
    only_child,
    optional_text,
    parsed,
    pieces,
    separate,
    text,
    whole,
    whole_number,
)
from merkatd.scheduler.base.ports import NO_RECORD
from merkatd.scheduler.base.ports import GuestRecord as RunRecord

NAMELESS = -1
"""The id of a VM whose ID could not be read."""

KEY = "MERKAT_KEY"
MESSAGE = "SCHED_MESSAGE"
ERROR = "ERROR"
_MOST_OF_AN_ERROR = 500
_OURS = "MERKAT"
_BIDS = frozenset({"CPU", "MEMORY", "NETWORK", "DISK"})
_NO = frozenset({"", "NO", "FALSE", "0"})
_EMPTY: Mapping[str, str] = {}
_UNKNOWN = -1
_USED = (
    "ID",
    "UID",
    "GID",
    "NAME",
    "STATE",
    "LCM_STATE",
    "RESCHED",
    "LOCK",
    "PERMISSIONS",
    "TEMPLATE",
    "USER_TEMPLATE",
    "HISTORY_RECORDS",
    "STIME",
)
_ONCE = (
    "CPU",
    "MEMORY",
    "VCPU",
    "TOPOLOGY",
    "VMGROUP",
    "AUTOMATIC_REQUIREMENTS",
    "AUTOMATIC_DS_REQUIREMENTS",
    "AUTOMATIC_NIC_REQUIREMENTS",
)
"""Attributes that OpenNebula stores once in a template."""
LONG = 1 << 20
"""The most bytes of a VM's texts that are read in each period; an ordinary VM takes 6 kB."""
NOTED = 1 << 14
"""The number of bytes above which the length of a VM's texts is recorded."""
MOST_TAGS = 10_000
"""The most tags of a VM that is parsed; an ordinary VM has some hundred."""
_ID = re.compile(rb"<VM><ID>(\d{1,18})</ID>")


class VmRow(NamedTuple):
    """The used properties of a VM."""

    id: int
    name: str
    owner: int
    group: int
    state: int
    life: int
    host: int
    """The host of the last history record, whether that record is closed or not."""
    cpu: float
    """The number of cores that oned counts for the VM."""
    vcpus: int
    size_cores: int
    memory_mib: int
    movable: bool
    pinned: bool
    """Whether OpenNebula chooses the VM's cores (PIN_POLICY)."""
    attributes: Mapping[str, str]
    message: str
    wants: VmRequirements = VmRequirements()
    member: RoleMember | None = None
    stay: DiskLocation | None = None
    leaves: bool = False
    """Whether the VM must be moved away from its host (RESCHED)."""
    locked: bool = False
    """Whether the VM is locked: OpenNebula refuses to deploy or to move it."""
    priority: float = 0.0
    """USER_PRIORITY"""
    actions: tuple[Mapping[str, str], ...] = ()
    """The VM's scheduled actions."""
    made_s: float = 0.0
    error: str = ""
    """The last error that OpenNebula reported for the VM."""
    record: RunRecord = NO_RECORD
    """When the VM ran, by its last history record."""
    boots_mib: float = 0.0
    """The memory that the guest boots with, if it is more than MEMORY; infinite if unknown."""
    by_record: str = ""
    """Why OpenNebula's own record replaces the VM's texts; empty if the texts were read."""


@dataclass(slots=True)
class Page:
    """The VMs of a part of the pool, in its order."""

    ids: list[int] = field(default_factory=list)
    """Ids of all VMs, also of unreadable ones."""
    vms: list[VmRow] = field(default_factory=list)
    ailing: dict[int, str] = field(default_factory=dict)
    """The reasons by VM id why VMs are unreadable."""
    long: set[int] = field(default_factory=set)
    """VMs whose texts are longer than `LONG`, or have more tags than `MOST_TAGS`."""
    lengths: dict[int, int] = field(default_factory=dict)
    """Lengths in bytes by VM id, for texts longer than `NOTED`."""
    short: set[int] = field(default_factory=set)
    """VMs of which the pool has only an outline, as in older servers."""


class GarbledError(BrokenError):
    """A complete pool in which a part is not XML."""


def read_page(pool: str) -> Page:
    """Return the VMs of a pool's text.

    Raise BrokenError if the text is incomplete, GarbledError if a part of it is not XML.
    """
    cut = pieces(pool, "VM_POOL", "VM")
    if cut is not None:
        try:
            return _read(cut)
        except BrokenError:
            pass
    try:
        return _read(separate(pool, "VM_POOL", "VM"))
    except BrokenError as error:
        if pool.rstrip().endswith("</VM_POOL>"):
            raise GarbledError(str(error)) from None
        raise


def read_vm(vm: str) -> VmRow:
    """Return the VM of a text. Raise BrokenError or UnreadableError."""
    element = only_child(vm, "VM")
    check(element, vm.encode("utf-8", "replace"))
    return _row(_parts(element))


def _read(pieces_of_pool: Iterable[bytes]) -> Page:
    page = Page()
    for piece in pieces_of_pool:
        if piece.count(b"<") > MOST_TAGS and (named := _ID.match(piece)) is not None:
            vm = int(named[1])
            page.ids.append(vm)
            page.ailing[vm] = f"its texts have more than {MOST_TAGS:,} tags"
            page.long.add(vm)
            continue
        element = parsed(piece)
        try:
            check(element, piece)
            row = _row(_parts(element))
            page.vms.append(row)
            vm = row.id
        except UnreadableError as error:
            vm = next(iter(ids(element.iterchildren("ID"))), NAMELESS)
            page.ailing[vm] = str(error)
        page.ids.append(vm)
        if len(piece) > LONG:
            page.long.add(vm)
        if len(piece) > NOTED:
            page.lengths[vm] = len(piece)
        if next(element.iterchildren("PERMISSIONS"), None) is None:
            page.short.add(vm)
    return page


def _parts(vm: Element) -> Mapping[str, Element]:
    """Return the used parts of a VM's element. Raise UnreadableError if one occurs twice.

    See Note [Texts that forge].
    """
    used = list(vm.iterchildren(*_USED))
    parts: Mapping[str, Element] = {str(child.tag): child for child in used}
    if len(parts) < len(used):
        raise UnreadableError(f"{_twice(used, parts)} occurs twice")
    return parts


def _twice(elements: Iterable[Element], names: Iterable[str]) -> str:
    counts = Counter(str(child.tag) for child in elements)
    return ", ".join(name for name in names if counts[name] > 1)


def _row(parts: Mapping[str, Element]) -> VmRow:
    template, user = _part(parts, "TEMPLATE"), _part(parts, "USER_TEMPLATE")
    cpu = amount(template, "CPU")
    vcpus = whole(template, "VCPU") if optional_text(template, "VCPU") else 0
    if vcpus < 0:
        raise UnreadableError(f"VCPU must be above 0 (got {vcpus})")
    attributes = _attributes(user, template)
    state, life = whole(parts, "STATE"), whole(parts, "LCM_STATE")
    last = last_record(parts.get("HISTORY_RECORDS"))
    record = _last(last)
    pinned = _pinned(template)
    return VmRow(
        id=object_id(parts),
        name=text(parts, "NAME"),
        owner=object_id(parts, "UID"),
        group=object_id(parts, "GID"),
        state=state,
        life=life,
        host=NO_HOST if record is None else record.host,
        cpu=cpu,
        # Without VCPU a domain has one virtual processor, however large CPU is.
        vcpus=vcpus or 1,
        size_cores=vcpus or ceil(cpu),
        memory_mib=int(amount(template, "MEMORY")),
        movable=not (pinned or "LOCK" in parts or _held(user, attributes)),
        pinned=pinned,
        attributes=attributes,
        message=optional_text(user, MESSAGE),
        wants=wants_of(parts["TEMPLATE"], template, user),
        member=member_of(template),
        stay=stay_of(state, life, record),
        leaves=optional_text(parts, "RESCHED") == "1",
        locked="LOCK" in parts,
        priority=measured(optional_text(user, "USER_PRIORITY")),
        actions=actions_of(parts["TEMPLATE"], template) + actions_of(parts["USER_TEMPLATE"], user),
        made_s=measured(optional_text(parts, "STIME")),
        error=optional_text(user, ERROR)[:_MOST_OF_AN_ERROR],
        record=record_of(last),
        boots_mib=_boots_mib(parts["TEMPLATE"]) if "MEMORY_MAX" in template else 0.0,
    )


def _boots_mib(template: Element) -> float:
    """Return MEMORY_MAX, unless oned adds that memory by hotplug.

    Otherwise a guest boots with all of it, and its balloon then shrinks it to MEMORY. If there are
    several values, the largest counts.
    """
    modes = {element.text for element in template.iterchildren("MEMORY_RESIZE_MODE")}
    if modes == {"HOTPLUG"}:
        return 0.0
    return max(measured(element.text) for element in template.iterchildren("MEMORY_MAX"))


def _part(parts: Mapping[str, Element], name: str) -> Mapping[str, Element]:
    part = parts.get(name)
    if part is None:
        raise UnreadableError(f"{name} is missing")
    elements = children(part)
    if len(elements) < len(part) and name == "TEMPLATE":
        once = list(part.iterchildren(*_ONCE))
        if len({child.tag for child in once}) < len(once):
            raise UnreadableError(f"{_twice(once, _ONCE)} occurs twice")
    return elements


def _last(last: Mapping[str, str] | None) -> LastRecord | None:
    """Return a VM's last record from its parts, None without one. Raise UnreadableError."""
    if last is None:
        return None
    if "HID" not in last:
        raise UnreadableError("HID is missing")
    number = whole_number(last["HID"])
    if number is None:
        raise UnreadableError(f"HID is {last['HID'][:40]!r}, not a whole number")
    return LastRecord(number, _known(last.get("DS_ID")), _known(last.get("ACTION")))


def _known(digits: str | None) -> int:
    number = whole_number(digits)
    return _UNKNOWN if number is None else number


def _pinned(template: Mapping[str, Element]) -> bool:
    """Return whether oned pins the VM to cores, so that it can't be moved live."""
    if "TOPOLOGY" not in template:
        return False
    policy = template["TOPOLOGY"].findtext("PIN_POLICY") or ""
    return policy.strip().upper() not in {"", "NONE"}


def _held(user: Mapping[str, Element], attributes: Mapping[str, str]) -> bool:
    """Return whether the owner wants the VM to stay, by Merkat's or OneDRS's attribute."""
    asked = attributes.get("MERKAT_PINNED", ""), optional_text(user, "ONEDRS_BLOCKED")
    return any(word.strip().upper() not in _NO for word in asked if word)


def _attributes(*templates: Mapping[str, Element]) -> Mapping[str, str]:
    """Return Merkat's attributes; the first template, and names before parts, take precedence."""
    texts: dict[str, str] = {}
    for template in templates:
        for name in [name for name in template if name.startswith("MERKAT_")]:
            texts.setdefault(name, template[name].text or "")
        for child in template.get(_OURS, ()):
            part = str(child.tag)
            name = f"MERKAT_BID_{part}" if part in _BIDS else f"MERKAT_{part}"
            texts.setdefault(name, child.text or "")
    return texts or _EMPTY
