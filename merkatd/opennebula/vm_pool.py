"""VMs from the text of a pool: each read by itself, so that a bad one harms no other."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from merkatd.opennebula.elements import (
    BrokenError,
    Element,
    UnreadableError,
    amount,
    children,
    counted,
    first,
    ids,
    measured,
    one,
    parsed,
    pieces,
    rows,
    said,
    text,
    whole,
)
from merkatd.opennebula.history import last_record
from merkatd.opennebula.vm_words import (
    Record,
    actions_of,
    member_of,
    stay_of,
    wants_of,
)
from merkatd.opennebula.wanted import Member, Stay, Wants
from merkatd.scheduler.ports import NO_RECORD
from merkatd.scheduler.ports import Record as RunRecord

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
    "PERMISSIONS",
    "TEMPLATE",
    "USER_TEMPLATE",
    "HISTORY_RECORDS",
    "STIME",
)


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
    wants: Wants = Wants()
    member: Member | None = None
    stay: Stay | None = None
    leaves: bool = False
    """Whether it is to be moved away from its host (RESCHED)."""
    priority: float = 0.0
    """USER_PRIORITY"""
    actions: tuple[Mapping[str, str], ...] = ()
    """Its scheduled actions."""
    made_s: float = 0.0
    error: str = ""
    """What OpenNebula last said that went wrong with it."""
    record: RunRecord = NO_RECORD
    """When it ran, by its last history record."""


@dataclass(slots=True)
class Page:
    """What a part of the pool showed, in its order."""

    ids: list[int] = field(default_factory=list)
    """Of all, also of those that could not be read."""
    vms: list[VmRow] = field(default_factory=list)
    ailing: dict[int, str] = field(default_factory=dict)
    short: set[int] = field(default_factory=set)
    """Of which the pool showed no more than an outline, as older servers do."""


def read_page(pool: str) -> Page:
    """The VMs of a pool's text. Raises BrokenError where it breaks off."""
    cut = pieces(pool, "VM_POOL", "VM")
    if cut is not None:
        try:
            return _read(map(parsed, cut))
        except BrokenError:
            pass
    try:
        return _read(rows(pool, "VM_POOL", "VM"))
    except BrokenError:
        return _piece_by_piece(pool)


def read_vm(vm: str) -> VmRow:
    """One VM. Raises BrokenError or UnreadableError where that can't be."""
    return _row(children(one(vm, "VM"), *_USED))


def _read(elements: Iterable[Element]) -> Page:
    page = Page()
    for element in elements:
        parts = children(element, *_USED)
        try:
            row = _row(parts)
            page.vms.append(row)
            vm = row.id
        except UnreadableError as error:
            vm = next(iter(ids(element.iterchildren("ID"))), NAMELESS)
            page.ailing[vm] = str(error)
        page.ids.append(vm)
        if "PERMISSIONS" not in parts:
            page.short.add(vm)
    return page


_BEGIN = re.compile(r"<VM><ID>(\d{1,18})</ID><UID>")
_END = "</VM_POOL>"


def _piece_by_piece(pool: str) -> Page:
    """Somewhere the text is no XML: each VM's piece is tried alone."""
    if not pool.rstrip().endswith(_END):
        raise BrokenError("VM_POOL breaks off")
    page = Page()
    begins = list(_BEGIN.finditer(pool))
    if not begins:
        raise BrokenError("VM_POOL is no XML")
    ends = [begin.start() for begin in begins[1:]] + [pool.rindex(_END)]
    for begin, end in zip(begins, ends, strict=True):
        vm = int(begin.group(1))
        page.ids.append(vm)
        try:
            page.vms.append(read_vm(pool[begin.start() : end]))
        except (UnreadableError, BrokenError) as error:
            page.ailing[vm] = str(error)
    return page


def _row(parts: Mapping[str, Element]) -> VmRow:
    template, user = _part(parts, "TEMPLATE"), _part(parts, "USER_TEMPLATE")
    cpu = amount(template, "CPU")
    vcpus = whole(template, "VCPU") if said(template, "VCPU") else 0
    if vcpus < 0:
        raise UnreadableError(f"VCPU is {vcpus}, not above 0")
    attributes = _attributes(user, template)
    state, life, record = whole(parts, "STATE"), whole(parts, "LCM_STATE"), _last(parts)
    pinned = _pinned(template)
    return VmRow(
        id=whole(parts, "ID"),
        name=text(parts, "NAME"),
        owner=whole(parts, "UID"),
        group=whole(parts, "GID"),
        state=state,
        life=life,
        host=NOWHERE if record is None else record.host,
        cpu=cpu,
        # Without VCPU a domain has one virtual processor, however large CPU is.
        vcpus=vcpus or 1,
        size_cores=vcpus or ceil(cpu),
        memory_mib=int(amount(template, "MEMORY")),
        movable=not (pinned or _held(user, attributes)),
        pinned=pinned,
        attributes=attributes,
        message=said(user, MESSAGE),
        wants=wants_of(parts["TEMPLATE"], template, user),
        member=member_of(template),
        stay=stay_of(state, life, record),
        leaves=said(parts, "RESCHED") == "1",
        priority=measured(said(user, "USER_PRIORITY")),
        actions=actions_of(parts["TEMPLATE"], template) + actions_of(parts["USER_TEMPLATE"], user),
        made_s=measured(said(parts, "STIME")),
        error=said(user, ERROR)[:_MOST_OF_AN_ERROR],
        record=last_record(parts.get("HISTORY_RECORDS")),
    )


def _part(parts: Mapping[str, Element], name: str) -> Mapping[str, Element]:
    part = parts.get(name)
    if part is None:
        raise UnreadableError(f"{name} is missing")
    return children(part)


def _last(parts: Mapping[str, Element]) -> Record | None:
    records = parts.get("HISTORY_RECORDS")
    if records is None or len(records) == 0:
        return None
    record = records[-1]
    host, datastore, action = first(record, "HID"), first(record, "DS_ID"), first(record, "ACTION")
    if host is None:
        raise UnreadableError("HID is missing")
    number = counted(host)
    if number is None:
        raise UnreadableError(f"HID is {host[:40]!r}, not a whole number")
    return Record(number, _known(datastore), _known(action))


def _known(found: str | None) -> int:
    number = counted(found)
    return _UNKNOWN if number is None else number


def _pinned(template: Mapping[str, Element]) -> bool:
    """Whether oned pins it to cores, and so can't move it live."""
    if "TOPOLOGY" not in template:
        return False
    policy = template["TOPOLOGY"].findtext("PIN_POLICY") or ""
    return policy.strip().upper() not in {"", "NONE"}


def _held(user: Mapping[str, Element], attributes: Mapping[str, str]) -> bool:
    """Whether its owner wants it to stay, as we or OpenNebula's own balancer let him say it."""
    asked = attributes.get("MERKAT_PINNED", ""), said(user, "ONEDRS_BLOCKED")
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
