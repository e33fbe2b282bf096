"""Phase 2 as the paper prints it (its Figure 2), with cores apart as long as there are enough.

The print leaves open which of equally cheap cores comes first: the one where the VM has fewest of
its virtual CPUs, and then the first.
"""

from collections.abc import Sequence


def printed_cores(rates: Sequence[float], vcpus: Sequence[int], cores: int) -> list[list[int]]:
    """By VM: the core of each of its virtual CPUs on a node of so many cores."""
    price = [0.0] * cores
    chosen: list[list[int]] = [[] for _ in rates]
    for vm in sorted(range(len(rates)), key=lambda vm: -rates[vm]):
        for _ in range(vcpus[vm]):
            free = [core for core in range(cores) if core not in chosen[vm] or vcpus[vm] > cores]
            cheapest = min((price[core], chosen[vm].count(core), core) for core in free)[2]
            price[cheapest] += rates[vm]
            chosen[vm].append(cheapest)
    return chosen
