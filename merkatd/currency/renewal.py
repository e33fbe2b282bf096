"""Renewals: every tenant is topped up to its part of the supply, as far as the treasury goes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from merkatd.currency.parts import rounded_down


@dataclass(frozen=True, slots=True)
class Tenant:
    """What a renewal needs to know of one tenant."""

    owner: int
    weight: float
    holdings: int
    """Micro-credits of its account and its applications' together."""


def entitlements(supply: int, tenants: Iterable[Tenant]) -> dict[int, int]:
    """By owner: the part of the supply that its weight stands for."""
    return rounded_down(supply, {tenant.owner: tenant.weight for tenant in tenants})


def incomes(supply: int, treasury: int, tenants: Iterable[Tenant]) -> dict[int, int]:
    """By owner: what a renewal pays. All are scaled down alike where the treasury is short."""
    known = list(tenants)
    entitled = entitlements(supply, known)
    lacking = {one.owner: max(0, entitled[one.owner] - one.holdings) for one in known}
    return affordable(treasury, lacking)


def affordable(purse: int, wanted: Mapping[int, int]) -> dict[int, int]:
    """What is wanted, or the same part of all of it where the purse is short."""
    if sum(wanted.values()) <= purse:
        return dict(wanted)
    return rounded_down(purse, wanted)
