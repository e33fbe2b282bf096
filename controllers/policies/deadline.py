"""Deadlines (section 3.1.1): the pace that is needed, the time to spare, what may be spent."""

from dataclasses import dataclass
from math import inf

from controllers.policies.vertical import Performance

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
class Purse:
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


def bid_max(purse: Purse, left_s: float, period_s: float, vms: int) -> float:
    """What may be spent on a VM in a period, so that the budget lasts until the deadline."""
    if left_s <= 0 or vms == 0:
        return 0.0
    whole = purse.credits + purse.renewal * (left_s / purse.renewal_s)
    return whole * min(period_s / left_s, 1.0) / vms


def least_deadline_s(work: Work, reachable_step_s: float) -> float:
    """The least time in which the rest can be done with what can be spent now."""
    return work.left * max(reachable_step_s, work.ideal_step_s)
