"""Deadlines: the needed pace, the time to spare, the spending rate, the value of an execution."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from merkatd.base.parameter_bounds import number
from merkatd.policies.vertical import Performance

LOW, HIGH = 0.75, 0.95
"""The thresholds of fast and slow, as fractions of the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of an iterative application."""

    steps: int
    done: float
    """Finished iterations, including the finished fraction of the current iteration."""
    ideal_step_s: float
    """t_refideal: the time of an iteration with the full allocation."""

    @property
    def left(self) -> float:
        """Return the number of iterations that remain."""
        return max(self.steps - self.done, 0.0)

    @property
    def ideal_s(self) -> float:
        """Return the least time for the rest of the work."""
        return self.left * self.ideal_step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Funds:
    """An application's budget, with `renewal` credits added every `renewal_s` seconds."""

    credits: float
    renewal: float = 0.0
    renewal_s: float = inf


def reference_s(work: Work, left_s: float) -> float:
    """Return t_ref, the time that an iteration may take; the paper misprints t_ideal for left_s."""
    return max(left_s, 0.0) / work.left if work.left else inf


def grace_s(work: Work, left_s: float) -> float:
    """Return t_grace, the time that the work can pause without risk for the deadline."""
    return left_s - work.ideal_s


def performance(work: Work, left_s: float, step_s: float) -> Performance:
    """Return the performance: the time of an iteration against the needed time."""
    reference = reference_s(work, left_s)
    return Performance(
        value=step_s, reference=reference, low=LOW * reference, high=HIGH * reference
    )


def bid_max(purse: Funds, left_s: float, period_s: float, vms: int) -> float:
    """Return the spending limit per VM and period with which the budget lasts to the deadline."""
    if left_s <= 0 or vms == 0:
        return 0.0
    means = purse.credits + purse.renewal * (left_s / purse.renewal_s)
    return means * min(period_s / left_s, 1.0) / vms


def least_deadline_s(work: Work, reachable_step_s: float) -> float:
    """Return the least time for the rest of the work at the present spending rate."""
    return work.left * max(reachable_step_s, work.ideal_step_s)


LEAST_PART: Final = 0.3
"""The default least part of the VMs' full size with which it is worthwhile to run."""
KINDS: Final = frozenset({"partial_deadline", "full_performance"})
"""The kinds of controllers that need a least part."""


def least_part(kind: str, parameters: Mapping[str, Any]) -> float | None:
    """Return the least part that a kind of controller needs; None if it tracks a pace instead."""
    return number(parameters, "least_part") if kind in KINDS else None


def missing_allocation(held: float) -> Performance:
    """Return the performance of work that wants its full allocation and has the part `held`.

    It is never fast: with the full allocation, bids only fall to the least that keep it.
    """
    value = 1.0 / held if held > 0 else inf
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)


def worthwhile(held: float) -> Performance:
    """Return the performance while only the held part is known.

    Less than the least part counts as slow, by a factor of 2 only.
    """
    value = (LOW + HIGH) / 2 if held >= LEAST_PART else 2.0
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)


def full_deadline(budget: float, exec_s: float, deadline_s: float) -> float:
    """Return the value of an execution: the budget if in time, else minus the budget."""
    return budget if exec_s <= deadline_s else -budget


def partial_deadline(budget: float, exec_s: float, deadline_s: float, done: float) -> float:
    """Return the value of an execution: the budget if in time, else in proportion to the work."""
    return budget if exec_s <= deadline_s else budget * done


def full_performance(budget: float, exec_s: float, deadline_s: float, ideal_s: float) -> float:
    """Return the value of an execution.

    It falls with the execution time, from the budget at the ideal time to minus the budget at the
    deadline.
    """
    if exec_s <= ideal_s:
        return budget
    if deadline_s <= ideal_s:
        return -budget
    return max(-budget, budget * (deadline_s + ideal_s - 2 * exec_s) / (deadline_s - ideal_s))
