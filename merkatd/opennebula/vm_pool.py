"""VMs from the text of a pool: each read by itself, so that a bad one harms no other."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from merkatd.opennebula.elements import (
    BrokenError,
    Element,
    UnreadableError,
    amount,
    children,
    ids,
    one,
    rows,
    text,
    whole,
)

NOWHERE = -1
NAMELESS = -1
"""In place of the id of a VM whose ID could not be read."""

KEY = "MERKAT_KEY"
MESSAGE = "SCHED_MESSAGE"
_OURS = "MERKAT"
_BIDS = frozenset({"CPU", "MEMORY"})
_NO = frozenset({"", "NO", "FALSE", "0"})
_EMPTY: Mapping[str, str] = {}


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
    attributes: Mapping[str, str]
    message: str


@dataclass(slots=True)
class Page:
    """What a part of the pool showed, in its order."""

    ids: list[int] = field(default_factory=list)
    """Of all, also of those that could not be read."""
    vms: list[VmRow] = field(default_factory=list)
    ailing: dict[int, str] = field(default_factory=dict)


def read_page(pool: str) -> Page:
    """The VMs of a pool's text. Raises BrokenError where it breaks off."""
    try:
        return _read(rows(pool, "VM_POOL", "VM"))
    except BrokenError:
        return _piece_by_piece(pool)


def read_vm(vm: str) -> VmRow:
    """One VM. Raises BrokenError or UnreadableError where that can't be."""
    return _row(one(vm, "VM"))


def _read(elements: Iterator[Element]) -> Page:
    page = Page()
    for element in elements:
        vm = next(iter(ids(element.iterchildren("ID"))), NAMELESS)
        page.ids.append(vm)
        _add(page, vm, lambda: _row(element))  # noqa: B023 - called at once
    return page


def _add(page: Page, vm: int, read: Callable[[], VmRow]) -> None:
    try:
        page.vms.append(read())
    except UnreadableError as error:
        page.ailing[vm] = str(error)


_BEGIN = re.compile(r"<VM><ID>(\d{1,18})</ID><UID>")
_END = "</VM_POOL>"


def _piece_by_piece(pool: str) -> Page:
    """Somewhere the text is no XML: each VM's piece is tried alone."""
    if not pool.rstrip().endswith(_END):
        raise BrokenError("VM_POOL breaks off")
    page = Page()
    begins = list(_BEGIN.finditer(pool))
    ends = [begin.start() for begin in begins[1:]] + [pool.rindex(_END)]
    for begin, end in zip(begins, ends, strict=True):
        vm = int(begin.group(1))
        page.ids.append(vm)
        try:
            page.vms.append(read_vm(pool[begin.start() : end]))
        except (UnreadableError, BrokenError) as error:
            page.ailing[vm] = str(error)
    return page


def _row(vm: Element) -> VmRow:
    parts = children(vm)
    template, user = _part(parts, "TEMPLATE"), _part(parts, "USER_TEMPLATE")
    cpu = amount(template, "CPU")
    vcpus = whole(template, "VCPU") if _said(template, "VCPU") else 0
    if vcpus < 0:
        raise UnreadableError(f"VCPU is {vcpus}, not above 0")
    attributes = _attributes(user, template)
    return VmRow(
        id=whole(parts, "ID"),
        name=text(parts, "NAME"),
        owner=whole(parts, "UID"),
        group=whole(parts, "GID"),
        state=whole(parts, "STATE"),
        life=whole(parts, "LCM_STATE"),
        host=_last_host(parts),
        cpu=cpu,
        # Without VCPU a domain has one virtual processor, however large CPU is.
        vcpus=vcpus or 1,
        size_cores=vcpus or ceil(cpu),
        memory_mib=int(amount(template, "MEMORY")),
        movable=not (_pinned(template) or _held(user, attributes)),
        attributes=attributes,
        message=(user[MESSAGE].text or "") if MESSAGE in user else "",
    )


def _part(parts: Mapping[str, Element], name: str) -> Mapping[str, Element]:
    part = parts.get(name)
    if part is None:
        raise UnreadableError(f"{name} is missing")
    return children(part)


def _said(template: Mapping[str, Element], name: str) -> bool:
    return name in template and bool(template[name].text)


def _last_host(parts: Mapping[str, Element]) -> int:
    records = parts.get("HISTORY_RECORDS")
    if records is None or len(records) == 0:
        return NOWHERE
    return whole(children(records[-1]), "HID")


def _pinned(template: Mapping[str, Element]) -> bool:
    """Whether oned pins it to cores, and so can't move it live."""
    if "TOPOLOGY" not in template:
        return False
    policy = template["TOPOLOGY"].findtext("PIN_POLICY") or ""
    return policy.strip().upper() not in {"", "NONE"}


def _held(user: Mapping[str, Element], attributes: Mapping[str, str]) -> bool:
    """Whether its owner wants it to stay, as we or OpenNebula's own balancer let him say it."""
    blocked = user["ONEDRS_BLOCKED"].text if "ONEDRS_BLOCKED" in user else None
    said = (attributes.get("MERKAT_PINNED"), blocked)
    return any((word or "").strip().upper() not in _NO for word in said)


def _attributes(*templates: Mapping[str, Element]) -> Mapping[str, str]:
    """What is said to us; of two places that say it the first counts, and a name before a part."""
    found: dict[str, str] = {}
    for template in templates:
        for name, element in template.items():
            if name.startswith("MERKAT_"):
                found.setdefault(name, element.text or "")
        for child in template.get(_OURS, ()):
            part = str(child.tag)
            name = f"MERKAT_BID_{part}" if part in _BIDS else f"MERKAT_{part}"
            found.setdefault(name, child.text or "")
    return found or _EMPTY
