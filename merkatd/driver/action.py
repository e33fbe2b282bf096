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

from merkatd.scheduler.handing import Room

Element = etree._Element  # noqa: SLF001 - lxml has no public name for the type

_KIB = 1024
_OF_USERS = ("VM_POOL", "VM_GROUP_POOL")
"""Pools of users' texts, which are not read; oned writes them in this order."""
_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"
_TAG = re.compile(rb"</?(?:VM|VM_GROUP)_POOL>")
_DIGITS = 18


class ActionError(Exception):
    """This is nothing that oned hands to a driver; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A datastore or a network: where it can be used, and how much it has left."""

    clusters: frozenset[int]
    free: int = 0


@dataclass(slots=True)
class Action:
    """One question of oned."""

    hosts: dict[int, frozenset[int]] = field(default_factory=dict)
    """By VM id: the hosts that match all its requirements,"""
    stores: dict[int, frozenset[int]] = field(default_factory=dict)
    """the system datastores that do,"""
    networks: dict[int, Mapping[int, frozenset[int]]] = field(default_factory=dict)
    """and by the id of each NIC that is to be chosen for, the networks."""
    room: dict[int, Room] = field(default_factory=dict)
    """By host id."""
    clusters: dict[int, int] = field(default_factory=dict)
    """By host id: its cluster."""
    datastores: dict[int, Place] = field(default_factory=dict)
    vnets: dict[int, Place] = field(default_factory=dict)
    unread: int = 0
    """Elements that were not as they should be, and left out."""


def read_action(payload: bytes) -> Action:
    """The question in what was handed over. Raises ActionError.

    Users' own texts may be as long as oned takes them, and no XML. Nothing is needed of the pools
    that they stand in, so these are left out then.
    """
    try:
        text = base64.b64decode(payload, validate=False)
    except (binascii.Error, ValueError) as error:
        raise ActionError(f"no base64: {error}") from None
    with suppress(ActionError):
        return _read(text)
    return _read(_without_users(text))


def _without_users(text: bytes) -> bytes:
    """Return the text without users' pools: each from its first beginning to its last end.

    What users write stands in CDATA sections, and looks there like whatever they like.
    """
    found = list(_tags_of_users(text))
    kept, start = [], 0
    for pool in _OF_USERS:
        begins = [at for mark, at in found if mark == f"<{pool}>".encode() and at >= start]
        ending = f"</{pool}>".encode()
        ends = [at for mark, at in found if mark == ending and at >= start]
        if begins and ends and begins[0] < ends[-1]:
            kept.append(text[start : begins[0]])
            start = ends[-1] + len(ending)
    return b"".join([*kept, text[start:]])


def _tags_of_users(text: bytes) -> Iterator[tuple[bytes, int]]:
    """Each tag of a users' pool that is in no CDATA section, and where it stands."""
    start = 0
    while True:
        begin = text.find(_CDATA, start)
        stop = len(text) if begin < 0 else begin
        for tag in _TAG.finditer(text, start, stop):
            yield tag[0], tag.start()
        end = -1 if begin < 0 else text.find(_CDATA_END, begin)
        if end < 0:
            return
        start = end + len(_CDATA_END)


def _read(text: bytes) -> Action:
    action = Action()
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
            _one(action, element)
    except etree.XMLSyntaxError as error:
        raise ActionError(f"no XML, or not whole: {error.msg}") from None
    if parsed.root is None or parsed.root.tag != "SCHEDULER_DRIVER_ACTION":
        raise ActionError("there is no SCHEDULER_DRIVER_ACTION")
    return action


def _one(action: Action, element: Element) -> None:
    """Take one element of a pool; users name their attributes as they like, also like these."""
    pool = element.getparent()
    root = None if pool is None else pool.getparent()
    if pool is None or root is None or root.getparent() is not None:
        return
    read = _READ.get((pool.tag, element.tag))
    if read is not None:
        try:
            read(action, element)
        except ValueError:
            action.unread += 1
    pool.remove(element)


def _matched(action: Action, vm: Element) -> None:
    number = _whole(vm, "ID")
    hosts, stores = _ids(vm, "HOSTS/ID"), _ids(vm, "DATASTORES/ID")
    networks = {_whole(nic, "ID"): _ids(nic, "VNETS/ID") for nic in vm.findall("NIC")}
    action.hosts[number], action.stores[number] = hosts, stores
    action.networks[number] = networks


def _host(action: Action, host: Element) -> None:
    number = _whole(host, "ID")
    cluster = _whole(host, "CLUSTER_ID")
    cpu = _whole(host, "HOST_SHARE/MAX_CPU") - _whole(host, "HOST_SHARE/CPU_USAGE")
    memory = _whole(host, "HOST_SHARE/MAX_MEM") - _whole(host, "HOST_SHARE/MEM_USAGE")
    action.room[number] = Room(cpu=float(cpu), memory_mib=memory / _KIB)
    action.clusters[number] = cluster


def _datastore(action: Action, store: Element) -> None:
    place = Place(_ids(store, "CLUSTERS/ID"), _whole(store, "FREE_MB"))
    action.datastores[_whole(store, "ID")] = place


def _vnet(action: Action, vnet: Element) -> None:
    action.vnets[_whole(vnet, "ID")] = Place(_ids(vnet, "CLUSTERS/ID"))


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
