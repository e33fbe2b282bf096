"""The ten-period rule: an owner that does not pay is warned, and then its VMs are suspended.

Arrears count per owner. A VM that is ended and made anew, or paid for by another account of
the same owner, changes nothing about them.
"""

from collections.abc import Collection, Mapping

PATIENCE = 10
"""Periods in a row that an owner may leave charges unpaid."""


def counted(
    before: Mapping[int, int], short: Collection[int], owing: Collection[int]
) -> dict[int, int]:
    """By owner: for how many periods in a row it has not paid in full.

    `short` are the owners that could not pay for this period, `owing` all that are in debt now.
    An owner out of debt starts anew. One that still owes, and ran nothing, stays where it was:
    suspending and resuming a VM settles nothing.
    """
    return {owner: before.get(owner, 0) + (owner in short) for owner in owing}


def suspended(counts: Mapping[int, int], patience: int = PATIENCE) -> frozenset[int]:
    """The owners that have not paid for long enough."""
    return frozenset(owner for owner, count in counts.items() if count >= patience)


def warning(count: int, debt: float, patience: int = PATIENCE) -> str:
    """What the owner reads at each of its running VMs; `debt` is in credits."""
    owes = f"its owner owes {debt:g} credits for earlier periods"
    if count >= patience:
        return (
            f"suspended: {owes}, and has not paid in full for {count} periods;"
            " resume it once the debt is paid"
        )
    left = patience - count
    periods = "period" if left == 1 else "periods"
    return f"{owes}: VMs are suspended in {left} {periods} unless they are paid"


def refusal(debt: float) -> str:
    """Why no new VM of the owner is placed; `debt` is in credits."""
    return (
        f"not placed: its owner owes {debt:g} credits for earlier periods;"
        " new VMs are placed once the debt is paid"
    )
