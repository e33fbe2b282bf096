"""PCI devices and NUMA nodes: whether a host has what a VM requires.

The check is stricter than OpenNebula's: a virtual node's cores and memory must be free on the same
node of the host, in addition to what the VM's other virtual nodes take there. Without this rule the
VM would run, but with memory farther away than requested.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from merkatd.opennebula.pools.constraint_facts import (
    NO_NODE,
    NO_VM,
    Node,
    NumaWant,
    PciDevice,
    PciWant,
)


def assigned_devices(wants: Sequence[PciWant], devices: Iterable[PciDevice]) -> list[str] | None:
    """Return the addresses of the devices that oned would assign, None if they don't suffice.

    Like oned, assign requests for a specific address first; each gets the first device that fits.
    """
    free = sorted(map(_has, (device for device in devices if device.vm == NO_VM)))
    if len(wants) > len(free):
        return None
    taken: list[str] = []
    for want in sorted(wants, key=_by_name):
        asked = _ids(want)
        row = next((row for row, device in enumerate(free) if _fits(want, asked, device)), None)
        if row is None:
            return None
        # A taken device is removed, so that later requests don't check it again.
        taken.append(free.pop(row).address)
    return taken


def suitable_devices(wants: Sequence[PciWant], devices: Iterable[PciDevice]) -> int:
    """Return the number of free devices that fit any of these requests."""
    free = map(_has, (device for device in devices if device.vm == NO_VM))
    asked = [(want, _ids(want)) for want in wants]
    return sum(any(_fits(want, ids, device) for want, ids in asked) for device in free)


def device_text(want: PciWant) -> str:
    """Return a readable description of a requested device."""
    parts = {
        "vendor": want.vendor,
        "device": want.device,
        "class": want.kind,
        "profile": want.profile,
    }
    words = [f"{name} {text}" for name, text in parts.items() if text]
    if not _by_name(want):
        words = [f"address {want.address}"]
    return ", ".join(words) or "a request without VENDOR, DEVICE, CLASS and SHORT_ADDRESS"


def _by_name(want: PciWant) -> bool:
    """Return whether a request is for a kind of device, not for an address.

    A request for a kind keeps the address of the device that it got in an earlier deployment.
    """
    return bool(want.vendor or want.device or want.kind) or not want.address


class _Free(NamedTuple):
    """A free device."""

    address: str
    ids: tuple[str, ...]
    profiles: tuple[str, ...]


def _has(device: PciDevice) -> _Free:
    return _Free(device.address, _ids(device), tuple(device.profiles))


def _fits(want: PciWant, asked: tuple[str, ...], device: _Free) -> bool:
    if not _by_name(want):
        return device.address == want.address
    if not any(asked) or any(
        wanted_id and wanted_id != has for wanted_id, has in zip(asked, device.ids, strict=True)
    ):
        return False
    return not want.profile or not device.profiles or want.profile in device.profiles


def _ids(device: PciWant | PciDevice) -> tuple[str, ...]:
    """Return vendor, device and class; empty texts for missing ones."""
    return _id(device.vendor), _id(device.device), _id(device.kind)


def _id(text: str) -> str:
    """Return a hexadecimal id without leading zeros; other texts are left unchanged."""
    try:
        return f"{int(text, 16):x}"
    except ValueError:
        return text


_DEDICATED = "CORE"
_MOST_NODES = 128
"""The most virtual nodes of a VM: no hypervisor supports more."""
_UNPINNED = frozenset({"", "NONE", "NODE_AFFINITY"})


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The resources that a virtual node takes on a node of the host."""

    node: int
    """The index of the node on the host."""
    cores: tuple[tuple[int, int], ...]
    """Used cores: pairs of the core's index and the number of used threads."""
    dedicated: bool
    memory_mib: int
    hugepages: tuple[int, int]
    """The size of the huge pages in MiB, and their number."""


def numa_placements(want: NumaWant, nodes: Sequence[Node]) -> tuple[NodePlace, ...] | None:
    """Return the placement of each virtual node of a VM, None if they don't fit."""
    if not want.nodes:
        return ()
    if len(want.nodes) > _MOST_NODES:
        return None
    if want.node_affinity != NO_NODE or (want.hugepage_mib and want.policy in _UNPINNED):
        return _memory_alone(want, nodes)
    for threads in _threads(want, nodes):
        placed = _placed(want, nodes, threads)
        if placed is not None:
            return placed
    return None


class NodeFit:
    """Whether VMs fit on hosts: computed once for equal requests and equal hosts."""

    def __init__(self, hosts: Sequence[Sequence[Node]], before: "NodeFit | None" = None) -> None:
        """`before` are the rooms of the previous period: results for equal hosts are reused."""
        self._hosts = hosts
        self._alike: list[bytes] | None = None
        self._before: dict[NumaWant, dict[bytes, bool]] = {} if before is None else before.answers
        self.answers: dict[NumaWant, dict[bytes, bool]] = {}

    def fit(self, want: NumaWant) -> list[bool]:
        """Return for each host whether such a VM fits."""
        if want not in self.answers:
            before, answers = self._before.get(want, {}), dict[bytes, bool]()
            for alike, nodes in zip(self._likenesses(), self._hosts, strict=True):
                if alike not in answers:
                    known = before.get(alike)
                    answers[alike] = (
                        numa_placements(want, nodes) is not None if known is None else known
                    )
            self.answers[want] = answers
        return [self.answers[want][alike] for alike in self._likenesses()]

    def _likenesses(self) -> list[bytes]:
        if self._alike is None:
            self._alike = [_likeness(nodes) for nodes in self._hosts]
        return self._alike


def _likeness(nodes: Sequence[Node]) -> bytes:
    """Return a key that is equal for hosts with equal nodes."""
    facts = [
        (node.id, node.cores, node.free_mib, sorted(node.free_hugepages.items())) for node in nodes
    ]
    return blake2b(repr(facts).encode(), digest_size=16).digest()


def nodes_after(nodes: Sequence[Node], spots: Sequence[NodePlace]) -> list[Node]:
    """Return the nodes after these spots are taken."""
    left = list(nodes)
    for spot in spots:
        node = left[spot.node]
        cores = list(node.cores)
        for core, threads in spot.cores:
            all_threads, free, dedicated = cores[core]
            cores[core] = all_threads, free - threads, dedicated or spot.dedicated
        pages = dict(node.free_hugepages)
        size, count = spot.hugepages
        if size:
            pages[size] = pages.get(size, 0) - count
        left[spot.node] = Node(node.id, cores, node.free_mib - spot.memory_mib, pages)
    return left


def _threads(want: NumaWant, nodes: Sequence[Node]) -> list[int]:
    """Return the numbers of threads of a core that a virtual node may use, largest first.

    They are powers of two.
    """
    if want.policy == _DEDICATED:
        return [1]
    host = max((core[0] for node in nodes for core in node.cores), default=1)
    most = min(want.threads or host, host)
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    fitting = [power for power in powers if all(cpus % power == 0 for cpus, _ in want.nodes)]
    if want.threads:
        return [want.threads] if want.threads in fitting else []
    return fitting[::-1]


def _placed(want: NumaWant, nodes: Sequence[Node], threads: int) -> tuple[NodePlace, ...] | None:
    """Place the largest virtual node first, each on the node with the fewest free threads."""
    dedicated = want.policy == _DEDICATED
    left = [_Left(at, node, threads, dedicated=dedicated) for at, node in enumerate(nodes)]
    places: list[NodePlace] = []
    for cpus, memory_mib in sorted(want.nodes, reverse=True):
        pages = _pages(want, memory_mib)
        fitting = [node for node in left if node.fits(cpus, memory_mib, pages)]
        if not fitting:
            return None
        best = min(fitting, key=lambda node: node.free)
        places.append(best.take(cpus, memory_mib, pages))
    return tuple(places)


class _Left:
    """The free resources of a node of the host, counted down as virtual nodes are placed.

    A virtual node's CPUs are a multiple of the threads that it uses of a core. So it takes exactly
    its number of CPUs from the node's room, and no core is left with an unusable rest.
    """

    def __init__(self, at: int, node: Node, threads: int, *, dedicated: bool) -> None:
        self._at, self._dedicated = at, dedicated
        self._mib, self._pages = node.free_mib, dict(node.free_hugepages)
        self.free = sum(0 if taken else free for _, free, taken in node.cores)
        """The number of free threads."""
        self._cores: list[tuple[int, int, int]] = []
        """Cores with room, the last first: index, room, and number of all threads of each."""
        for core in range(len(node.cores) - 1, -1, -1):
            all_threads, free, taken = node.cores[core]
            room = int(free == all_threads) if dedicated else free // threads * threads
            if room > 0 and not taken:
                self._cores.append((core, room, all_threads))
        self._room = sum(room for _, room, _ in self._cores)

    def fits(self, cpus: int, memory_mib: int, pages: tuple[int, int]) -> bool:
        """Return whether a virtual node fits."""
        size, count = pages
        has_pages = size == 0 or self._pages.get(size, 0) >= max(count, 1)
        return has_pages and self._mib >= memory_mib and self._room >= cpus

    def take(self, cpus: int, memory_mib: int, pages: tuple[int, int]) -> NodePlace:
        """Take the first cores that have room, and return what was taken."""
        cores: list[tuple[int, int]] = []
        needed = max(cpus, 0)
        while needed > 0:
            core, room, all_threads = self._cores.pop()
            used = min(room, needed)
            if used < room:
                self._cores.append((core, room - used, all_threads))
            threads = all_threads if self._dedicated else used
            cores.append((core, threads))
            needed -= used
            self._room -= used
            self.free -= threads
        self._mib -= memory_mib
        size, count = pages
        if size:
            self._pages[size] = self._pages.get(size, 0) - count
        return NodePlace(self._at, tuple(cores), self._dedicated, memory_mib, pages)


def _memory_alone(want: NumaWant, nodes: Sequence[Node]) -> tuple[NodePlace, ...] | None:
    """Place all memory of a VM on a node: the requested one, or that with most free huge pages."""
    memory_mib = sum(memory for _, memory in want.nodes)
    pages = _pages(want, memory_mib)
    of_size: Callable[[int], int] = lambda at: nodes[at].free_hugepages.get(pages[0], 0)  # noqa: E731 - used as a key
    fitting = [
        at
        for at, node in enumerate(nodes)
        if want.node_affinity in {NO_NODE, node.id}
        and node.free_mib >= memory_mib
        and _has_pages(node, pages)
    ]
    if not fitting:
        return None
    return (NodePlace(max(fitting, key=of_size), (), False, memory_mib, pages),)


def _pages(want: NumaWant, memory_mib: int) -> tuple[int, int]:
    size = want.hugepage_mib
    return (size, -(-memory_mib // size)) if size else (0, 0)


def _has_pages(node: Node, pages: tuple[int, int]) -> bool:
    size, count = pages
    return size == 0 or node.free_hugepages.get(size, 0) >= max(count, 1)
