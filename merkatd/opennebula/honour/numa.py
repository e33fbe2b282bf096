"""NUMA: whether a host has whole cores, memory and huge pages free where a VM wants them.

Careful where OpenNebula is not: a virtual node's cores and memory must be free on the same
node of the host, and together with what the VM's other nodes take there. What is refused here
for that alone would run with memory farther away than it was meant to be.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from merkatd.opennebula.wanted import NOBODY, Node, NumaWant

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


def spots(want: NumaWant, nodes: Sequence[Node]) -> tuple[Spot, ...] | None:
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


def taken(nodes: Sequence[Node], spots: Sequence[Spot]) -> list[Node]:
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
    left = list(nodes)
    found: list[Spot] = []
    for cpus, memory_mib in sorted(want.nodes, reverse=True):
        fitting = [
            spot
            for at, node in enumerate(left)
            if (spot := _on(want, at, node, cpus, memory_mib, threads)) is not None
        ]
        if not fitting:
            return None
        best = min(fitting, key=lambda spot: _free_threads(left[spot.node]))
        found.append(best)
        left = taken(left, [best])
    return tuple(found)


def _on(
    want: NumaWant, at: int, node: Node, cpus: int, memory_mib: int, threads: int
) -> Spot | None:
    pages = _pages(want, memory_mib)
    if node.free_mib < memory_mib or not _has_pages(node, pages):
        return None
    dedicated = want.policy == _DEDICATED
    cores: list[tuple[int, int]] = []
    needed = cpus
    for core, (all_threads, free, taken_whole) in enumerate(node.cores):
        if needed <= 0:
            break
        if dedicated:
            usable = int(free == all_threads and not taken_whole)
        else:
            usable = 0 if taken_whole else free // threads * threads
        used = min(usable, needed)
        if used:
            cores.append((core, all_threads if dedicated else used))
            needed -= used
    if needed > 0:
        return None
    return Spot(at, tuple(cores), dedicated, memory_mib, pages)


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


def _free_threads(node: Node) -> int:
    return sum(0 if dedicated else free for _, free, dedicated in node.cores)
