"""What oned hands to a scheduler driver: base64 of one XML document, read once at the border.

Bids and the VMs that run are seen by the period itself. What counts here is what oned has
worked out already: who may be where, which datastores and networks match, what room is left.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO

from lxml import etree

from merkatd.scheduler.execution.delegation import HostRoom

Element = etree._Element  # noqa: SLF001 - lxml has no public name for the type

_KIB = 1024
_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"
_TAG = re.compile(rb"<(/?)(?:VM|VM_GROUP)_POOL>")
"""Pools of users' texts, which are not read."""
_DIGITS = 18
_MANY = 5_000
"""Elements of users' own that are called like those of pools, in one question."""


class DriverRequestError(Exception):
    """This is nothing that oned hands to a driver; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class OfferedHost:
    """A datastore or a network: where it can be used, and how much it has left."""

    clusters: frozenset[int]
    free: int = 0


@dataclass(slots=True)
class DriverRequest:
    """One question of oned."""

    hosts: dict[int, frozenset[int]] = field(default_factory=dict)
    """By VM id: the hosts that match all its requirements,"""
    stores: dict[int, frozenset[int]] = field(default_factory=dict)
    """the system datastores that do,"""
    networks: dict[int, Mapping[int, frozenset[int]]] = field(default_factory=dict)
    """and by the id of each NIC that is to be chosen for, the networks."""
    room: dict[int, HostRoom] = field(default_factory=dict)
    """By host id."""
    clusters: dict[int, int] = field(default_factory=dict)
    """By host id: its cluster."""
    datastores: dict[int, OfferedHost] = field(default_factory=dict)
    vnets: dict[int, OfferedHost] = field(default_factory=dict)
    unread: int = 0
    """Elements that were not as they should be, and left out."""


def read_action(payload: bytes) -> DriverRequest:
    """The question in what was handed over. Raises ActionError.

    Users' own texts may be as long as oned takes them, no XML, or have a hundred thousand elements
    called like those of pools. Nothing is needed of the pools that they stand in, so these are left
    out then.
    """
    try:
        text = base64.b64decode(payload, validate=False)
    except (binascii.Error, ValueError) as error:
        raise DriverRequestError(f"no base64: {error}") from None
    with suppress(DriverRequestError):
        return _read(text, _MANY)
    return _read(_without_users(text), len(text))


def _without_users(text: bytes) -> bytes:
    """Return the text without users' pools, found by their depth in the document.

    What users write stands in CDATA sections, and looks there like whatever they like; and they
    name their attributes as they like, also like a pool.
    """
    kept, start, depth, begin = [], 0, 0, -1
    for first, stop in _outside_texts(text):
        at = first
        for tag in _TAG.finditer(text, at, stop):
            depth += _deeper(text, at, tag.start())
            at = tag.end()
            if not tag[1]:
                begin = tag.start() if depth == 1 else begin
                depth += 1
                continue
            depth -= 1
            if depth == 1 and begin >= 0:
                kept.append(text[start:begin])
                start, begin = at, -1
        depth += _deeper(text, at, stop)
    return b"".join([*kept, text[start:]])


def _deeper(text: bytes, start: int, stop: int) -> int:
    """Return by how many elements the text is deeper at its stop: those that begin, less ends."""
    begins = text.count(b"<", start, stop) - text.count(b"</", start, stop)
    return begins - text.count(b"</", start, stop) - text.count(b"/>", start, stop)


def _outside_texts(text: bytes) -> Iterator[tuple[int, int]]:
    """Return where each part begins and stops that is in no CDATA section."""
    start = 0
    while True:
        begin = text.find(_CDATA, start)
        yield start, len(text) if begin < 0 else begin
        end = -1 if begin < 0 else text.find(_CDATA_END, begin)
        if end < 0:
            return
        start = end + len(_CDATA_END)


def _read(text: bytes, most: int) -> DriverRequest:
    """Read it. Raises ActionError, also where more elements are users' own than `most`."""
    action = DriverRequest()
    try:
        parsed = etree.iterparse(
            BytesIO(text),
            events=("end",),
            tag=("VM", "HOST", "DATASTORE", "VNET"),
            resolve_entities=False,
            no_network=True,
            huge_tree=True,
        )
        for _, element in parsed:
            most -= not _one(action, element)
            if most < 0:
                raise DriverRequestError("there are too many elements of users")
    except etree.XMLSyntaxError as error:
        raise DriverRequestError(f"no XML, or not whole: {error.msg}") from None
    if parsed.root is None or parsed.root.tag != "SCHEDULER_DRIVER_ACTION":
        raise DriverRequestError("there is no SCHEDULER_DRIVER_ACTION")
    return action


def _one(action: DriverRequest, element: Element) -> bool:
    """Take one element of a pool; False where it is none: users name attributes as they like."""
    pool = element.getparent()
    root = None if pool is None else pool.getparent()
    if pool is None or root is None or root.getparent() is not None:
        return False
    read = _READ.get((pool.tag, element.tag))
    if read is not None:
        try:
            read(action, element)
        except ValueError:
            action.unread += 1
    pool.remove(element)
    return True


def _matched(action: DriverRequest, vm: Element) -> None:
    number = _whole(vm, "ID")
    hosts, stores = _ids(vm, "HOSTS/ID"), _ids(vm, "DATASTORES/ID")
    networks = {_whole(nic, "ID"): _ids(nic, "VNETS/ID") for nic in vm.findall("NIC")}
    action.hosts[number], action.stores[number] = hosts, stores
    action.networks[number] = networks


def _host(action: DriverRequest, host: Element) -> None:
    number = _whole(host, "ID")
    cluster = _whole(host, "CLUSTER_ID")
    cpu = _whole(host, "HOST_SHARE/MAX_CPU") - _whole(host, "HOST_SHARE/CPU_USAGE")
    memory = _whole(host, "HOST_SHARE/MAX_MEM") - _whole(host, "HOST_SHARE/MEM_USAGE")
    action.room[number] = HostRoom(cpu=float(cpu), memory_mib=memory / _KIB)
    action.clusters[number] = cluster


def _datastore(action: DriverRequest, store: Element) -> None:
    place = OfferedHost(_ids(store, "CLUSTERS/ID"), _whole(store, "FREE_MB"))
    action.datastores[_whole(store, "ID")] = place


def _vnet(action: DriverRequest, vnet: Element) -> None:
    action.vnets[_whole(vnet, "ID")] = OfferedHost(_ids(vnet, "CLUSTERS/ID"))


_READ = {
    ("REQUIREMENTS", "VM"): _matched,
    ("HOST_POOL", "HOST"): _host,
    ("DATASTORE_POOL", "DATASTORE"): _datastore,
    ("VNET_POOL", "VNET"): _vnet,
}


def _whole(element: Element, path: str) -> int:
    """The whole number at a path. Raises ValueError."""
    text = element.findtext(path) or ""
    if len(text) > _DIGITS or not text.isascii():
        raise ValueError(path)
    return int(text)


def _ids(element: Element, path: str) -> frozenset[int]:
    return frozenset(_numbers(one.text or "" for one in element.findall(path)))


def _numbers(texts: Iterable[str]) -> Iterable[int]:
    """Those that an id can be; what is none is left out."""
    return (int(one) for one in texts if one.isascii() and one.isdigit() and len(one) <= _DIGITS)
