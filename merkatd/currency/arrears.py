"""The ten-period rule: an owner that does not pay is warned, and then its VMs are suspended.

Arrears count per owner. A VM that is ended and made anew, or paid for by another account of
the same owner, changes nothing about them.
"""

from collections.abc import Collection, Mapping
from math import ceil

PATIENCE = 10
"""Intervals that an owner may leave charges unpaid. Periods that begin early are parts of one."""

_NEARLY = 0.25
"""Intervals. No two are equally long: those before patience ends need not be whole."""


def counted(
    before: Mapping[int, float],
    short: Collection[int],
    owing: Collection[int],
    intervals: float = 1.0,
) -> dict[int, float]:
    """By owner: for how many intervals it has not paid in full.

    `short` are the owners that could not pay for this period, which was so many `intervals` long,
    and `owing` all that are in debt now.
    An owner out of debt starts anew. One that still owes, and ran nothing, stays where it was:
    suspending and resuming a VM settles nothing.
    """
    return {
        owner: before.get(owner, 0.0) + (intervals if owner in short else 0.0) for owner in owing
    }


def suspended(counts: Mapping[int, float], patience: int = PATIENCE) -> frozenset[int]:
    """The owners that have not paid for long enough."""
    return frozenset(owner for owner, count in counts.items() if _over(count, patience))


def _over(count: float, patience: int) -> bool:
    return count >= patience - _NEARLY


def warning(count: float, debt: float, patience: int = PATIENCE) -> str:
    """What the owner reads at each of its running VMs; `debt` is in credits."""
    owes = f"its owner owes {debt:g} credits for earlier periods"
    if _over(count, patience):
        return (
            f"suspended: {owes}, and has not paid in full for {count:.0f} periods;"
            " resume it once the debt is paid"
        )
    left = ceil(patience - _NEARLY - count)
    periods = "period" if left == 1 else "periods"
    return f"{owes}: VMs are suspended in {left} {periods} unless they are paid"


def gives_back(debt: float) -> str:
    """Why a VM is stopped that is off, or that its owner started; `debt` is in credits."""
    return (
        f"gives its host back: its owner owes {debt:g} credits for earlier periods;"
        " resume it once the debt is paid, then it is placed"
    )


def refusal(debt: float) -> str:
    """Why no new VM of the owner is placed; `debt` is in credits."""
    return (
        f"not placed: its owner owes {debt:g} credits for earlier periods;"
        " new VMs are placed once the debt is paid"
    )
