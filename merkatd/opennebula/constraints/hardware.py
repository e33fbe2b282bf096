"""PCI devices and NUMA nodes: what a host has free of what a VM wants.

Careful where OpenNebula is not: a virtual node's cores and memory must be free on the same
node of the host, and together with what the VM's other nodes take there. What is refused here
for that alone would run with memory farther away than it was meant to be.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from merkatd.opennebula.pools.constraint_facts import NOBODY, Node, NumaWant, PciDevice, PciWant


def assigned_devices(wants: Sequence[PciWant], devices: Iterable[PciDevice]) -> list[str] | None:
    """The addresses that oned would give, None where it can't.

    As oned does it: wants for one very device first, then each in turn the first that fits.
    """
    free = sorted(map(_has, (one for one in devices if one.vm == NOBODY)))
    if len(wants) > len(free):
        return None
    taken: list[str] = []
    for want in sorted(wants, key=_by_name):
        asked = _ids(want)
        row = next((row for row, one in enumerate(free) if _fits(want, asked, one)), None)
        if row is None:
            return None
        # Each is looked at once by those that come later: they ask for no device that is taken.
        taken.append(free.pop(row).address)
    return taken


def device_text(want: PciWant) -> str:
    """What was asked for, in words."""
    parts = {
        "vendor": want.vendor,
        "device": want.device,
        "class": want.kind,
        "profile": want.profile,
    }
    words = [f"{name} {text}" for name, text in parts.items() if text]
    if not _by_name(want):
        words = [f"address {want.address}"]
    return ", ".join(words) or "nothing that names it (VENDOR, DEVICE, CLASS or SHORT_ADDRESS)"


def _by_name(want: PciWant) -> bool:
    """Whether it is chosen by what it is: a want that was served once still shows an address."""
    return bool(want.vendor or want.device or want.kind) or not want.address


class _Free(NamedTuple):
    """A device that is free."""

    address: str
    ids: tuple[str, ...]
    profiles: tuple[str, ...]


def _has(device: PciDevice) -> _Free:
    return _Free(device.address, _ids(device), tuple(device.profiles))


def _fits(want: PciWant, asked: tuple[str, ...], device: _Free) -> bool:
    if not _by_name(want):
        return device.address == want.address
    if not any(asked) or any(
        one and one != has for one, has in zip(asked, device.ids, strict=True)
    ):
        return False
    return not want.profile or not device.profiles or want.profile in device.profiles


def _ids(one: PciWant | PciDevice) -> tuple[str, ...]:
    """Vendor, device and class; an empty text where none is named."""
    return _id(one.vendor), _id(one.device), _id(one.kind)


def _id(text: str) -> str:
    """Ids are hexadecimal, with or without leading zeros; other texts stay as they are."""
    try:
        return f"{int(text, 16):x}"
    except ValueError:
        return text


_DEDICATED = "CORE"
_MOST_NODES = 128
"""Virtual nodes of a VM: no hypervisor makes more."""
_UNPINNED = frozenset({"", "NONE", "NODE_AFFINITY"})


@dataclass(frozen=True, slots=True)
class Spot:
    """What one virtual node takes of a node of the host."""

    node: int
    """Which one: its place among the host's."""
    cores: tuple[tuple[int, int], ...]
    """Of each core that is used: its place, and how many of its threads."""
    dedicated: bool
    memory_mib: int
    hugepages: tuple[int, int]
    """Their size in MiB, and how many."""


def numa_placements(want: NumaWant, nodes: Sequence[Node]) -> tuple[Spot, ...] | None:
    """Where the VM's nodes would be, None where they do not fit."""
    if not want.nodes:
        return ()
    if len(want.nodes) > _MOST_NODES:
        return None
    if want.node_affinity != NOBODY or (want.hugepage_mib and want.policy in _UNPINNED):
        return _memory_alone(want, nodes)
    for threads in _threads(want, nodes):
        found = _placed(want, nodes, threads)
        if found is not None:
            return found
    return None


class Rooms:
    """Whether VMs fit on hosts: found once for all VMs that want the same, and hosts alike."""

    def __init__(self, hosts: Sequence[Sequence[Node]], before: "Rooms | None" = None) -> None:
        """`before` are the rooms of the judgement before: what has not changed is taken there."""
        self._hosts = hosts
        self._alike: list[bytes] | None = None
        self._before: dict[NumaWant, dict[bytes, bool]] = {} if before is None else before.found
        self.found: dict[NumaWant, dict[bytes, bool]] = {}

    def fit(self, want: NumaWant) -> list[bool]:
        """[hosts]: whether such a VM fits."""
        if want not in self.found:
            before, found = self._before.get(want, {}), dict[bytes, bool]()
            for alike, nodes in zip(self._likenesses(), self._hosts, strict=True):
                if alike not in found:
                    known = before.get(alike)
                    found[alike] = (
                        numa_placements(want, nodes) is not None if known is None else known
                    )
            self.found[want] = found
        return [self.found[want][alike] for alike in self._likenesses()]

    def _likenesses(self) -> list[bytes]:
        if self._alike is None:
            self._alike = [_likeness(nodes) for nodes in self._hosts]
        return self._alike


def _likeness(nodes: Sequence[Node]) -> bytes:
    """The same for hosts whose nodes are the same."""
    said = [(one.id, one.cores, one.free_mib, sorted(one.free_hugepages.items())) for one in nodes]
    return blake2b(repr(said).encode(), digest_size=16).digest()


def nodes_after(nodes: Sequence[Node], spots: Sequence[Spot]) -> list[Node]:
    """The nodes once these are taken."""
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
    """How many threads of a core a virtual node may have, the most first: powers of two."""
    if want.policy == _DEDICATED:
        return [1]
    host = max((core[0] for node in nodes for core in node.cores), default=1)
    most = min(want.threads or host, host)
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    fitting = [one for one in powers if all(cpus % one == 0 for cpus, _ in want.nodes)]
    if want.threads:
        return [want.threads] if want.threads in fitting else []
    return fitting[::-1]


def _placed(want: NumaWant, nodes: Sequence[Node], threads: int) -> tuple[Spot, ...] | None:
    """The largest virtual node first, each where it leaves least over."""
    dedicated = want.policy == _DEDICATED
    left = [_Left(at, node, threads, dedicated=dedicated) for at, node in enumerate(nodes)]
    found: list[Spot] = []
    for cpus, memory_mib in sorted(want.nodes, reverse=True):
        pages = _pages(want, memory_mib)
        fitting = [one for one in left if one.fits(cpus, memory_mib, pages)]
        if not fitting:
            return None
        best = min(fitting, key=lambda one: one.free)
        found.append(best.take(cpus, memory_mib, pages))
    return tuple(found)


class _Left:
    """What is left of one node of the host, counted down as virtual nodes take of it.

    A virtual node's CPUs are a multiple of the threads that it may have of a core. So each takes
    as much of the node's room as it has CPUs, and no core needs a second look.
    """

    def __init__(self, at: int, node: Node, threads: int, *, dedicated: bool) -> None:
        self._at, self._dedicated = at, dedicated
        self._mib, self._pages = node.free_mib, dict(node.free_hugepages)
        self.free = sum(0 if taken else free for _, free, taken in node.cores)
        """Threads."""
        self._cores: list[tuple[int, int, int]] = []
        """Of each core with room, the last first: its place, its room, and all of its threads."""
        for core in range(len(node.cores) - 1, -1, -1):
            all_threads, free, taken = node.cores[core]
            room = int(free == all_threads) if dedicated else free // threads * threads
            if room > 0 and not taken:
                self._cores.append((core, room, all_threads))
        self._room = sum(room for _, room, _ in self._cores)

    def fits(self, cpus: int, memory_mib: int, pages: tuple[int, int]) -> bool:
        """Whether there is room for a virtual node."""
        size, count = pages
        has_pages = size == 0 or self._pages.get(size, 0) >= max(count, 1)
        return has_pages and self._mib >= memory_mib and self._room >= cpus

    def take(self, cpus: int, memory_mib: int, pages: tuple[int, int]) -> Spot:
        """Take the first cores that have room."""
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
        return Spot(self._at, tuple(cores), self._dedicated, memory_mib, pages)


def _memory_alone(want: NumaWant, nodes: Sequence[Node]) -> tuple[Spot, ...] | None:
    """All of its memory on one node: the one it names, or that with most huge pages free."""
    memory_mib = sum(memory for _, memory in want.nodes)
    pages = _pages(want, memory_mib)
    of_size: Callable[[int], int] = lambda at: nodes[at].free_hugepages.get(pages[0], 0)  # noqa: E731 - used as a key
    fitting = [
        at
        for at, node in enumerate(nodes)
        if want.node_affinity in {NOBODY, node.id}
        and node.free_mib >= memory_mib
        and _has_pages(node, pages)
    ]
    if not fitting:
        return None
    return (Spot(max(fitting, key=of_size), (), False, memory_mib, pages),)


def _pages(want: NumaWant, memory_mib: int) -> tuple[int, int]:
    size = want.hugepage_mib
    return (size, -(-memory_mib // size)) if size else (0, 0)


def _has_pages(node: Node, pages: tuple[int, int]) -> bool:
    size, count = pages
    return size == 0 or node.free_hugepages.get(size, 0) >= max(count, 1)
