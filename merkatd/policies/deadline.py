"""Deadlines: the pace needed, the time to spare, what may be spent, what an execution is worth."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from merkatd.base.parameter_bounds import number
from merkatd.policies.vertical import Performance

LOW, HIGH = 0.75, 0.95
"""The thresholds, as parts of the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """An application that makes so many iterations."""

    steps: int
    done: float
    """With the part of the one in hand."""
    ideal_step_s: float
    """t_refideal: an iteration with all it can use."""

    @property
    def left(self) -> float:
        """Iterations still to be made."""
        return max(self.steps - self.done, 0.0)

    @property
    def ideal_s(self) -> float:
        """The least time in which the rest can be done."""
        return self.left * self.ideal_step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Funds:
    """An application's budget, which is filled up as time goes by."""

    credits: float
    renewal: float = 0.0
    renewal_s: float = inf


def reference_s(work: Work, left_s: float) -> float:
    """t_ref: how long an iteration may take. The paper's print puts t_ideal for the deadline."""
    return max(left_s, 0.0) / work.left if work.left else inf


def grace_s(work: Work, left_s: float) -> float:
    """t_grace: for how long it could stand still without any risk for the deadline."""
    return left_s - work.ideal_s


def performance(work: Work, left_s: float, step_s: float) -> Performance:
    """An iteration's time against the one that is needed."""
    reference = reference_s(work, left_s)
    return Performance(
        value=step_s, reference=reference, low=LOW * reference, high=HIGH * reference
    )


def bid_max(purse: Funds, left_s: float, period_s: float, vms: int) -> float:
    """What may be spent on a VM in a period, so that the budget lasts until the deadline."""
    if left_s <= 0 or vms == 0:
        return 0.0
    whole = purse.credits + purse.renewal * (left_s / purse.renewal_s)
    return whole * min(period_s / left_s, 1.0) / vms


def least_deadline_s(work: Work, reachable_step_s: float) -> float:
    """The least time in which the rest can be done with what can be spent now."""
    return work.left * max(reachable_step_s, work.ideal_step_s)


LEAST_PART: Final = 0.3
"""Of what its VMs can use: with less it is not worth while to run."""
KINDS: Final = frozenset({"partial_deadline", "full_performance"})
"""The controllers of such tenants."""


def least_part(kind: str, parameters: Mapping[str, Any]) -> float | None:
    """Return the part that a kind of controller can't do without; None where it tracks a pace."""
    return number(parameters, "least_part") if kind in KINDS else None


def missing_allocation(held: float) -> Performance:
    """The time that work takes with a part of an allocation, where all of it is wanted.

    Never fast: with all of it the bids only fall to what keeps it.
    """
    value = 1.0 / held if held > 0 else inf
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)


def worthwhile(held: float) -> Performance:
    """While nothing is known but what is held: less than the least part is doubled, with care."""
    value = (LOW + HIGH) / 2 if held >= LEAST_PART else 2.0
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)


def full_deadline(budget: float, exec_s: float, deadline_s: float) -> float:
    """All or the opposite of all."""
    return budget if exec_s <= deadline_s else -budget


def partial_deadline(budget: float, exec_s: float, deadline_s: float, done: float) -> float:
    """In time, or the part of the work that was done."""
    return budget if exec_s <= deadline_s else budget * done


def full_performance(budget: float, exec_s: float, deadline_s: float, ideal_s: float) -> float:
    """Falls with the time it took, from the budget at the ideal to its opposite at the deadline."""
    if exec_s <= ideal_s:
        return budget
    if deadline_s <= ideal_s:
        return -budget
    return max(-budget, budget * (deadline_s + ideal_s - 2 * exec_s) / (deadline_s - ideal_s))
