"""VMs from the text of a pool: each read by itself, so that a bad one harms no other."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

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

NOWHERE = -1
NAMELESS = -1
"""In place of the id of a VM whose ID could not be read."""

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
"""What OpenNebula keeps once in a template."""
LONG = 1 << 20
"""Bytes of a VM's texts that are read each time; an ordinary VM takes 6 kB."""
NOTED = 1 << 14
"""Of longer ones the length is noted."""
MOST_TAGS = 10_000
"""A VM with more is not taken apart; an ordinary one has some hundred."""
_ID = re.compile(rb"<VM><ID>(\d{1,18})</ID>")


class VmRow(NamedTuple):
    """What is used of a VM."""

    id: int
    name: str
    owner: int
    group: int
    state: int
    life: int
    host: int
    """Of the last history record, whether that is over or not."""
    cpu: float
    """Cores that oned charges."""
    vcpus: int
    size_cores: int
    memory_mib: int
    movable: bool
    pinned: bool
    """Whether OpenNebula chooses its cores (PIN_POLICY)."""
    attributes: Mapping[str, str]
    message: str
    wants: VmRequirements = VmRequirements()
    member: RoleMember | None = None
    stay: DiskLocation | None = None
    leaves: bool = False
    """Whether it is to be moved away from its host (RESCHED)."""
    locked: bool = False
    """Whether OpenNebula refuses to deploy or to move it, whoever asks."""
    priority: float = 0.0
    """USER_PRIORITY"""
    actions: tuple[Mapping[str, str], ...] = ()
    """Its scheduled actions."""
    made_s: float = 0.0
    error: str = ""
    """What OpenNebula last said that went wrong with it."""
    record: RunRecord = NO_RECORD
    """When it ran, by its last history record."""
    by_record: str = ""
    """Why its own texts were not read, where OpenNebula's record stands in for them."""


@dataclass(slots=True)
class Page:
    """What a part of the pool showed, in its order."""

    ids: list[int] = field(default_factory=list)
    """Of all, also of those that could not be read."""
    vms: list[VmRow] = field(default_factory=list)
    ailing: dict[int, str] = field(default_factory=dict)
    long: set[int] = field(default_factory=set)
    """Whose texts are longer than `LONG`, or have more tags than `MOST_TAGS`."""
    lengths: dict[int, int] = field(default_factory=dict)
    """In bytes, of those that are longer than `NOTED`."""
    short: set[int] = field(default_factory=set)
    """Of which the pool showed no more than an outline, as older servers do."""


class GarbledError(BrokenError):
    """A pool that came whole, and in which something is no XML."""


def read_page(pool: str) -> Page:
    """The VMs of a pool's text. Raises BrokenError where it breaks off, GarbledError within."""
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
    """One VM. Raises BrokenError or UnreadableError where that can't be."""
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
    """Return the used parts of a VM's element. Raise UnreadableError where one occurs twice.

    Note [Texts that forge].
    """
    found = list(vm.iterchildren(*_USED))
    parts: Mapping[str, Element] = {str(child.tag): child for child in found}
    if len(parts) < len(found):
        raise UnreadableError(f"{_twice(found, parts)} is there twice")
    return parts


def _twice(found: Iterable[Element], names: Iterable[str]) -> str:
    counts = Counter(str(child.tag) for child in found)
    return ", ".join(name for name in names if counts[name] > 1)


def _row(parts: Mapping[str, Element]) -> VmRow:
    template, user = _part(parts, "TEMPLATE"), _part(parts, "USER_TEMPLATE")
    cpu = amount(template, "CPU")
    vcpus = whole(template, "VCPU") if optional_text(template, "VCPU") else 0
    if vcpus < 0:
        raise UnreadableError(f"VCPU is {vcpus}, not above 0")
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
        host=NOWHERE if record is None else record.host,
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
    )


def _part(parts: Mapping[str, Element], name: str) -> Mapping[str, Element]:
    part = parts.get(name)
    if part is None:
        raise UnreadableError(f"{name} is missing")
    found = children(part)
    if len(found) < len(part) and name == "TEMPLATE":
        once = list(part.iterchildren(*_ONCE))
        if len({child.tag for child in once}) < len(once):
            raise UnreadableError(f"{_twice(once, _ONCE)} is there twice")
    return found


def _last(last: Mapping[str, str] | None) -> LastRecord | None:
    """Where a VM is or was, from the parts of its last record. Raises UnreadableError."""
    if last is None:
        return None
    if "HID" not in last:
        raise UnreadableError("HID is missing")
    number = whole_number(last["HID"])
    if number is None:
        raise UnreadableError(f"HID is {last['HID'][:40]!r}, not a whole number")
    return LastRecord(number, _known(last.get("DS_ID")), _known(last.get("ACTION")))


def _known(found: str | None) -> int:
    number = whole_number(found)
    return _UNKNOWN if number is None else number


def _pinned(template: Mapping[str, Element]) -> bool:
    """Whether oned pins it to cores, and so can't move it live."""
    if "TOPOLOGY" not in template:
        return False
    policy = template["TOPOLOGY"].findtext("PIN_POLICY") or ""
    return policy.strip().upper() not in {"", "NONE"}


def _held(user: Mapping[str, Element], attributes: Mapping[str, str]) -> bool:
    """Whether its owner wants it to stay, as we or OpenNebula's own balancer let him say it."""
    asked = attributes.get("MERKAT_PINNED", ""), optional_text(user, "ONEDRS_BLOCKED")
    return any(word.strip().upper() not in _NO for word in asked if word)


def _attributes(*templates: Mapping[str, Element]) -> Mapping[str, str]:
    """What is said to us; of two places that say it the first counts, and a name before a part."""
    found: dict[str, str] = {}
    for template in templates:
        for name in [name for name in template if name.startswith("MERKAT_")]:
            found.setdefault(name, template[name].text or "")
        for child in template.get(_OURS, ()):
            part = str(child.tag)
            name = f"MERKAT_BID_{part}" if part in _BIDS else f"MERKAT_{part}"
            found.setdefault(name, child.text or "")
    return found or _EMPTY
