"""Phase 2 as the paper prints it (its Figure 2); a VM shares a core only if cores run out.

The paper leaves open the order of equally cheap cores. Here the core with the fewest virtual CPUs
of the VM comes first, then the core with the lowest number.
"""

from collections.abc import Sequence


def printed_cores(rates: Sequence[float], vcpus: Sequence[int], cores: int) -> list[list[int]]:
    """Return for each VM the core of each virtual CPU, on a node with `cores` cores."""
    price = [0.0] * cores
    chosen: list[list[int]] = [[] for _ in rates]
    for vm in sorted(range(len(rates)), key=lambda vm: -rates[vm]):
        for _ in range(vcpus[vm]):
            free = [core for core in range(cores) if core not in chosen[vm] or vcpus[vm] > cores]
            cheapest = min((price[core], chosen[vm].count(core), core) for core in free)[2]
            price[cheapest] += rates[vm]
            chosen[vm].append(cheapest)
    return chosen
