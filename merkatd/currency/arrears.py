"""The ten-period rule: a VM that holds its floor without paying is warned, and then suspended."""

from collections.abc import Iterable, Mapping

import numpy as np

from merkatd.cluster import Bools, Ints

PATIENCE = 10
"""Periods that a VM may hold its floor unpaid."""


def unpaid(charged: Ints, owed: Ints, floor: Ints) -> Bools:
    """[vms]: who paid less than both its floor costs and what it owed, or nothing at all.

    Under the clearing rule a VM owes no more than its bid, which may be less than its floor
    costs; that is a payment, unless the bid is nothing.
    """
    less: Bools = charged < np.minimum(owed, floor)
    nothing: Bools = (charged == 0) & (floor > 0)
    return less | nothing


def counted(
    before: Mapping[int, int], unpaid: Iterable[int], paid: Iterable[int], present: Iterable[int]
) -> dict[int, int]:
    """By VM: for how many periods on end it has not paid for its floor.

    Who pays starts anew, who is gone is forgotten. Who neither paid nor owed, since it did not
    run, stays where it was: being suspended and resumed settles nothing.
    """
    there, settled, owing = set(present), set(paid), set(unpaid)
    kept = {vm: count for vm, count in before.items() if vm in there and vm not in settled}
    return kept | {vm: before.get(vm, 0) + 1 for vm in owing}


def suspended(counts: Mapping[int, int], patience: int = PATIENCE) -> frozenset[int]:
    """The VMs that have held their floor unpaid for long enough."""
    return frozenset(vm for vm, count in counts.items() if count >= patience)


def warning(count: int, patience: int = PATIENCE) -> str:
    """What the owner of such a VM is told."""
    if count >= patience:
        return (
            f"suspended: its floor was not paid for in {count} periods;"
            " resume it once there are credits again"
        )
    left = patience - count
    periods = "period" if left == 1 else "periods"
    return f"no credits: its floor was not paid for, and it is suspended in {left} {periods}"
