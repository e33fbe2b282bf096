"""Replenishment: applications' budgets refilled by their tenant, up to the initial amount."""

from collections.abc import Iterable
from dataclasses import dataclass

from merkatd.currency.renewal import affordable


@dataclass(frozen=True, slots=True)
class Refill:
    """What a replenishment needs to know of one application."""

    application: int
    initial: int
    """The budget is never lifted above this."""
    amount: int
    """What its tenant chose to add each time."""
    balance: int


def replenishments(purse: int, budgets: Iterable[Refill]) -> dict[int, int]:
    """By application of one tenant: what is moved, all alike where the tenant is short."""
    wanted = {
        one.application: max(0, min(one.amount, one.initial - one.balance)) for one in budgets
    }
    return affordable(purse, wanted)
