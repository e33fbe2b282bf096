"""A question of oned to its scheduler driver: an XML document in base64.

The period reads bids and running VMs itself. This module reads the results that oned has computed:
the matching hosts, datastores and networks of each VM, and the free room of each host.
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
"""Pools that contain users' texts, which are not read."""
_DIGITS = 18
_MANY = 5_000
"""The most elements of users' texts with names of pool elements, in a question."""


class DriverRequestError(Exception):
    """An invalid question; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class OfferedHost:
    """A datastore or a network: the clusters that can use it, and its free space."""

    clusters: frozenset[int]
    free: int = 0


@dataclass(slots=True)
class DriverRequest:
    """A question of oned."""

    hosts: dict[int, frozenset[int]] = field(default_factory=dict)
    """The hosts that match all requirements of a VM, by VM id."""
    stores: dict[int, frozenset[int]] = field(default_factory=dict)
    """The system datastores that match all requirements of a VM, by VM id."""
    networks: dict[int, Mapping[int, frozenset[int]]] = field(default_factory=dict)
    """The matching networks by VM id and by id of each automatic NIC."""
    room: dict[int, HostRoom] = field(default_factory=dict)
    """The free room of hosts, by host id."""
    clusters: dict[int, int] = field(default_factory=dict)
    """The clusters of hosts, by host id."""
    datastores: dict[int, OfferedHost] = field(default_factory=dict)
    vnets: dict[int, OfferedHost] = field(default_factory=dict)
    unread: int = 0
    """The number of invalid elements, which are left out."""


def read_action(payload: bytes) -> DriverRequest:
    """Read a question. Raise DriverRequestError.

    Users' texts may be as long as oned accepts, may not be XML, or may contain 100,000 elements
    with names of pool elements. If the question can't be read because of them, the pools with
    users' texts are cut out: they are not needed.
    """
    try:
        text = base64.b64decode(payload, validate=False)
    except (binascii.Error, ValueError) as error:
        raise DriverRequestError(f"it is not base64: {error}") from None
    with suppress(DriverRequestError):
        return _read(text, _MANY)
    return _read(_without_users(text), len(text))


def _without_users(text: bytes) -> bytes:
    """Return the text without the pools of users' texts, found by their depth in the document.

    Names alone don't identify a pool. Users' values are CDATA sections, which may contain any tags,
    and users may give an attribute the name of a pool.
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
    """Return by how many levels the depth grows between start and stop: begin minus end tags."""
    begins = text.count(b"<", start, stop) - text.count(b"</", start, stop)
    return begins - text.count(b"</", start, stop) - text.count(b"/>", start, stop)


def _outside_texts(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each part outside CDATA sections."""
    start = 0
    while True:
        begin = text.find(_CDATA, start)
        yield start, len(text) if begin < 0 else begin
        end = -1 if begin < 0 else text.find(_CDATA_END, begin)
        if end < 0:
            return
        start = end + len(_CDATA_END)


def _read(text: bytes, most: int) -> DriverRequest:
    """Read a question. Raise DriverRequestError, also for more than `most` elements of users."""
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
            most -= not _read_element(action, element)
            if most < 0:
                raise DriverRequestError("it has too many elements of users")
    except etree.XMLSyntaxError as error:
        raise DriverRequestError(f"it is not complete XML: {error.msg}") from None
    if parsed.root is None or parsed.root.tag != "SCHEDULER_DRIVER_ACTION":
        raise DriverRequestError("its root element must be SCHEDULER_DRIVER_ACTION")
    return action


def _read_element(action: DriverRequest, element: Element) -> bool:
    """Read an element of a pool. Return False if it is in no pool, but an attribute of a user."""
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


def _read_vm(action: DriverRequest, vm: Element) -> None:
    number = _whole(vm, "ID")
    hosts, stores = _ids(vm, "HOSTS/ID"), _ids(vm, "DATASTORES/ID")
    networks = {_whole(nic, "ID"): _ids(nic, "VNETS/ID") for nic in vm.findall("NIC")}
    action.hosts[number], action.stores[number] = hosts, stores
    action.networks[number] = networks


def _read_host(action: DriverRequest, host: Element) -> None:
    number = _whole(host, "ID")
    cluster = _whole(host, "CLUSTER_ID")
    cpu = _whole(host, "HOST_SHARE/MAX_CPU") - _whole(host, "HOST_SHARE/CPU_USAGE")
    memory = _whole(host, "HOST_SHARE/MAX_MEM") - _whole(host, "HOST_SHARE/MEM_USAGE")
    action.room[number] = HostRoom(cpu=float(cpu), memory_mib=memory / _KIB)
    action.clusters[number] = cluster


def _read_datastore(action: DriverRequest, store: Element) -> None:
    place = OfferedHost(_ids(store, "CLUSTERS/ID"), _whole(store, "FREE_MB"))
    action.datastores[_whole(store, "ID")] = place


def _read_vnet(action: DriverRequest, vnet: Element) -> None:
    action.vnets[_whole(vnet, "ID")] = OfferedHost(_ids(vnet, "CLUSTERS/ID"))


_READ = {
    ("REQUIREMENTS", "VM"): _read_vm,
    ("HOST_POOL", "HOST"): _read_host,
    ("DATASTORE_POOL", "DATASTORE"): _read_datastore,
    ("VNET_POOL", "VNET"): _read_vnet,
}


def _whole(element: Element, path: str) -> int:
    """Return the whole number at a path. Raise ValueError."""
    text = element.findtext(path) or ""
    if len(text) > _DIGITS or not text.isascii():
        raise ValueError(path)
    return int(text)


def _ids(element: Element, path: str) -> frozenset[int]:
    return frozenset(_numbers(part.text or "" for part in element.findall(path)))


def _numbers(texts: Iterable[str]) -> Iterable[int]:
    """Return the texts that are valid ids, as numbers."""
    return (
        int(text) for text in texts if text.isascii() and text.isdigit() and len(text) <= _DIGITS
    )
