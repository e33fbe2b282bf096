"""The pool of hosts: their capacities, monitoring samples, and facts for requirements.

PCI devices and NUMA nodes are parsed only on demand: few VMs request them, and a host can have
hundreds of both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple, TypeVar, overload

from lxml import etree
from twisted.logger import Logger

from merkatd.opennebula.pools.constraint_facts import NO_VM, HostFacts, Node, PciDevice
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    first,
    ids,
    measured,
    object_id,
    optional_text,
    parsed,
    pieces,
    rows,
    text,
    whole,
    whole_number,
)

Values = dict[str, Sequence[str]]
Thing = TypeVar("Thing")
_KIB = 1024
_MOST_DEVICES = 2048
"""The most PCI devices of a host that are read."""
_MOST_NODES = 256
"""The most NUMA nodes of a host that are read."""
_RESERVED = "-2"
"""The VM id of a thread that is reserved from VMs."""
_NOT_WORDS = frozenset({"PCI_DEVICES", "NUMA_NODES", "DATASTORES", "VMS"})


class LazyParts(Sequence[Thing]):
    """A sequence that is read on its first use."""

    def __init__(self, read: Callable[[], Sequence[Thing]]) -> None:
        self._read: Callable[[], Sequence[Thing]] | None = read
        self._found: Sequence[Thing] = ()

    def _all(self) -> Sequence[Thing]:
        if self._read is not None:
            self._found, self._read = self._read(), None
        return self._found

    @overload
    def __getitem__(self, at: int) -> Thing: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Thing]: ...

    def __getitem__(self, at: int | slice) -> Thing | Sequence[Thing]:
        return self._all()[at]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Thing]:
        return iter(self._all())


def facts_of(
    host: int, cluster: int, vms: frozenset[int], element: Element, text: bytes
) -> HostFacts:
    """Return a host's own facts; `text` is the text from which the element was parsed."""
    share = next(element.iterchildren("HOST_SHARE"), None)
    disks = None if share is None else next(share.iterchildren("DATASTORES"), None)
    return HostFacts(
        host=host,
        cluster=cluster,
        values=words_of(element, share, disks, next(element.iterchildren("TEMPLATE"), None)),
        vms=vms,
        pcis=LazyParts(partial(_devices, text)),
        numa=LazyParts(partial(_nodes, text)),
        disk_mib=0.0 if disks is None else measured(first(disks, "FREE_DISK")),
        datastore_mib={} if disks is None else _space(disks),
    )


def words_of(*elements: Element | None) -> Values:
    """Return the texts inside these elements by name, in their order, without vectors."""
    texts: dict[str, list[str]] = {}
    for element in elements:
        for child in () if element is None else element:
            if len(child) == 0 and child.tag not in _NOT_WORDS:
                texts.setdefault(child.tag, []).append(child.text or "")
    return dict(texts)


def merge_facts(own: Mapping[str, Sequence[str]], *others: Mapping[str, Sequence[str]]) -> Values:
    """Return all facts, those of the first mapping first."""
    merged: Values = dict(own)
    for other in others:
        for name, texts in other.items():
            merged[name] = [*merged[name], *texts] if name in merged else texts
    return merged


def _space(disks: Element) -> Mapping[int, float]:
    """Return the free space by datastore, for datastores that were measured on this host."""
    free_mib: dict[int, float] = {}
    for disk in disks.iterchildren("DS"):
        datastore = whole_number(first(disk, "ID"))
        if datastore is not None:
            free_mib[datastore] = measured(first(disk, "FREE_MB"))
    return free_mib


def _share(text: bytes) -> Mapping[str, Element]:
    share = next(parsed(text).iterchildren("HOST_SHARE"), None)
    return {} if share is None else children(share)


def _devices(text: bytes) -> Sequence[PciDevice]:
    devices = islice(_share(text).get("PCI_DEVICES", ()), _MOST_DEVICES)
    return [_device(children(pci)) for pci in devices]


def _device(parts: Mapping[str, Element]) -> PciDevice:
    vm = whole_number(optional_text(parts, "VMID"))
    profiles = optional_text(parts, "PROFILES")
    return PciDevice(
        vendor=optional_text(parts, "VENDOR"),
        device=optional_text(parts, "DEVICE"),
        kind=optional_text(parts, "CLASS"),
        address=optional_text(parts, "SHORT_ADDRESS"),
        vm=NO_VM if vm is None else vm,
        profiles=tuple(filter(None, (profile.strip() for profile in profiles.split(",")))),
    )


def _nodes(text: bytes) -> Sequence[Node]:
    share = _share(text)
    most = max(whole_number(optional_text(share, "VMS_THREAD")) or 1, 1)
    nodes = islice(share.get("NUMA_NODES", ()), _MOST_NODES)
    return [_node(element, most) for element in nodes]


def _node(element: Element, most: int) -> Node:
    parts = children(element)
    memory = children(parts["MEMORY"]) if "MEMORY" in parts else {}
    free_kib = measured(optional_text(memory, "TOTAL")) - measured(optional_text(memory, "USAGE"))
    return Node(
        id=whole_number(optional_text(parts, "NODE_ID")) or 0,
        cores=[_core(children(core), most) for core in element.iterchildren("CORE")],
        free_mib=max(int(free_kib) // _KIB, 0),
        free_hugepages=dict(_hugepages(element)),
    )


def _core(parts: Mapping[str, Element], most: int) -> tuple[int, int, bool]:
    """Return a core's threads, its free threads, and whether it is dedicated to a VM.

    CPUS lists each thread with each VM on it, -1 for none: "0:-1,16:7,16:9".
    """
    pairs = [pair.partition(":") for pair in optional_text(parts, "CPUS").split(",") if pair]
    threads = {thread for thread, _, vm in pairs if vm != _RESERVED}
    used = sum((whole_number(vm) or 0) >= 0 for _, _, vm in pairs if whole_number(vm) is not None)
    dedicated = optional_text(parts, "DEDICATED").upper() == "YES"
    free = 0 if dedicated else max(len(threads) * most - used, 0)
    return len(threads) * most, free, dedicated


def _hugepages(element: Element) -> Iterator[tuple[int, int]]:
    """Yield the size in MiB and the number of free huge pages of each size."""
    for page in element.iterchildren("HUGEPAGE"):
        parts = children(page)
        free = measured(optional_text(parts, "PAGES")) - measured(optional_text(parts, "USAGE"))
        yield int(measured(optional_text(parts, "SIZE"))) // _KIB, max(int(free), 0)


_log = Logger()


class HostRow(NamedTuple):
    """The used properties of a host."""

    id: int
    name: str
    cluster: int
    state: int
    cpu: float
    """Capacity in percent of a core, without reserved CPU."""
    memory_mib: float
    vms: tuple[int, ...]
    """Ids of the VMs that oned counts on the host."""
    charged_cpu: float
    """The CPU that oned counts for these VMs, in percent of a core."""
    charged_mib: float
    """The memory that oned counts for these VMs."""
    facts: HostFacts


class HostLoad(NamedTuple):
    """The latest monitored use of a host."""

    cpu: float
    memory_mib: float
    words: Mapping[str, Sequence[str]] = MappingProxyType({})
    """All facts of the sample."""


class HostPool:
    """Reads the pool of hosts in each period, and parses only hosts whose text has changed."""

    def __init__(self) -> None:
        self._known: dict[bytes, HostRow] = {}

    def read(self, pool: str) -> list[HostRow]:
        """Return the hosts of a pool's text; unreadable ones are left out and logged.

        Raise BrokenError if the text is incomplete.
        """
        parts = pieces(pool, "HOST_POOL", "HOST")
        if parts is None:
            return self._rows(_streamed(pool))
        cut = list(parts)
        try:
            return self._rows(cut)
        except BrokenError:
            try:
                return self._rows(_streamed(pool))
            except BrokenError:
                return self._rows(filter(_is_whole, cut))

    def _rows(self, texts: Iterable[bytes]) -> list[HostRow]:
        known: dict[bytes, HostRow] = {}
        by_id: dict[int, HostRow] = {}
        for piece in texts:
            key = blake2b(piece, digest_size=16).digest()
            row = self._known.get(key) or _row_of(piece)
            if row is not None:
                known[key] = by_id[row.id] = row
        self._known = known
        return list(by_id.values())


ASLEEP = "MERKAT_ASLEEP"
"""The mark of sleep, which concerns one host: neither its cluster nor its monitoring sets it."""


def with_facts(
    hosts: Sequence[HostRow],
    load: Mapping[int, HostLoad],
    clusters: Mapping[int, Mapping[str, Sequence[str]]],
) -> list[HostRow]:
    """Return the hosts with all their facts, including those of samples and clusters."""
    nothing: Mapping[str, Sequence[str]] = {}
    hosts_with_facts = []
    for host in hosts:
        sample = load[host.id].words if host.id in load else nothing
        others = sample, clusters.get(host.cluster, nothing)
        values = merge_facts(host.facts.values, *others)
        if ASLEEP in values:
            values[ASLEEP] = host.facts.values.get(ASLEEP, ())
        facts = replace(host.facts, values=values)
        hosts_with_facts.append(host._replace(facts=facts))
    return hosts_with_facts


def _streamed(pool: str) -> list[bytes]:
    """Return the text of each host. Raise BrokenError."""
    elements = rows(pool, "HOST_POOL", "HOST")
    return [etree.tostring(element, encoding="utf-8", with_tail=False) for element in elements]


def _is_whole(piece: bytes) -> bool:
    try:
        parsed(piece)
    except BrokenError as error:
        _log.warn("A host is not XML and is left out: {why}", why=error)
        return False
    return True


def _row_of(piece: bytes) -> HostRow | None:
    """Return the host, None if it can't be read. Raise BrokenError if it is not XML."""
    element = parsed(piece)
    try:
        return _row(element, piece)
    except UnreadableError as error:
        host = element.findtext("ID")
        _log.warn("Host {host} can't be read and is left out: {why}", host=host, why=error)
        return None


def _row(host: Element, piece: bytes) -> HostRow:
    parts = children(host)
    share = children(parts["HOST_SHARE"]) if "HOST_SHARE" in parts else {}
    number, cluster = object_id(parts), whole(parts, "CLUSTER_ID")
    vms = ids(parts.get("VMS", ()))
    return HostRow(
        id=number,
        name=text(parts, "NAME"),
        cluster=cluster,
        state=whole(parts, "STATE"),
        cpu=float(max(whole(share, "MAX_CPU"), 0)),
        memory_mib=max(whole(share, "MAX_MEM"), 0) / _KIB,
        vms=vms,
        charged_cpu=measured(optional_text(share, "CPU_USAGE")),
        charged_mib=measured(optional_text(share, "MEM_USAGE")) / _KIB,
        facts=facts_of(number, cluster, frozenset(vms), host, piece),
    )


def read_samples(pool: str) -> Mapping[int, HostLoad]:
    """Return the latest samples by host id; unreadable ones are left out."""
    loads = {}
    for element in rows(pool, "MONITORING_DATA", "MONITORING"):
        try:
            parts = children(element)
            capacity = children(parts["CAPACITY"]) if "CAPACITY" in parts else {}
            loads[object_id(parts)] = HostLoad(
                float(whole(capacity, "USED_CPU")),
                whole(capacity, "USED_MEMORY") / _KIB,
                words_of(parts.get("CAPACITY"), parts.get("SYSTEM")),
            )
        except UnreadableError:
            continue
    return loads
