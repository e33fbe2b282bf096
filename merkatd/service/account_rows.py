"""Tenants, budgets, notes and statements, as services return them.

Amounts are credits, for people. Where programs add them up, the micro-credits are there too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from merkatd.currency.statement import StatementLine
from merkatd.ledger import MICRO, BudgetRow, Note, Statement, TenantAccount


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names of users and groups by their ids."""

    users: Mapping[int, str] = field(default_factory=dict)
    groups: Mapping[int, str] = field(default_factory=dict)

    def group(self, group: int | None) -> str | None:
        """Return the name of a group, None if it is not known."""
        return None if group is None else self.groups.get(group)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantStanding:
    """A tenant with its balances."""

    id: int
    name: str | None
    group: int | None
    group_name: str | None
    weight: float
    own_weight: float | None
    """The tenant's own weight; None if the group's weight or the default applies."""
    entitlement: float
    balance: float
    in_applications: float
    holdings: float
    reserved: float
    debt: float
    micro: int
    """The holdings in micro-credits."""
    retired_s: float | None


def standing_of(tenant: TenantAccount, names: KnownNames) -> TenantStanding:
    """Return a tenant with its balances."""
    return TenantStanding(
        id=tenant.owner,
        name=tenant.name,
        group=tenant.group,
        group_name=names.group(tenant.group),
        weight=tenant.weight,
        own_weight=tenant.own_weight,
        entitlement=tenant.entitlement / MICRO,
        balance=tenant.balance / MICRO,
        in_applications=tenant.in_applications / MICRO,
        holdings=tenant.holdings / MICRO,
        reserved=tenant.reserved / MICRO,
        debt=tenant.debt / MICRO,
        micro=tenant.holdings,
        retired_s=tenant.retired_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationBudget:
    """The budget of an application."""

    application: int
    name: str
    owner: int
    owner_name: str | None
    budget: float
    replenishment: float
    balance: float
    reserved: float
    debt: float
    micro: int
    """The balance in micro-credits."""
    opened_s: float
    ended_s: float | None


def budget_of(budget: BudgetRow, owner_name: str | None) -> ApplicationBudget:
    """Return the budget of an application."""
    return ApplicationBudget(
        application=budget.application,
        name=budget.name,
        owner=budget.owner,
        owner_name=owner_name,
        budget=budget.initial / MICRO,
        replenishment=budget.replenishment / MICRO,
        balance=budget.balance / MICRO,
        reserved=budget.reserved / MICRO,
        debt=budget.debt / MICRO,
        micro=budget.balance,
        opened_s=budget.opened_s,
        ended_s=budget.ended_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyNote:
    """A note on an action of an administrator or of the policy."""

    at_s: float
    kind: str
    who: str
    tenant: int | None
    text: str


def note_of(note: Note) -> MoneyNote:
    """Return a note on an action of an administrator or of the policy."""
    return MoneyNote(
        at_s=note.at_s, kind=str(note.kind), who=note.who, tenant=note.owner, text=note.text
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditSupply:
    """All credits, and all tenants that have some."""

    supply: float
    treasury: float
    changed_s: float | None
    """The time of the supply policy's last change."""
    change: str | None
    """The supply policy's last change and its reason."""
    tenants: Sequence[TenantStanding]
    """All tenants, also retired ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantDetails:
    """A tenant with its applications and the latest notes."""

    standing: TenantStanding
    applications: Sequence[ApplicationBudget]
    notes: Sequence[MoneyNote]


@dataclass(frozen=True, slots=True)
class TenantStatement:
    """A tenant's month, and the present name of its group."""

    month: Statement
    group_name: str | None


def further_goods(line: StatementLine) -> dict[str, float]:
    """Return the hours and cost of network and disk, if they were sold to the VM."""
    goods: dict[str, float] = {}
    if line.network_mbit or line.network_cost:
        goods["network_mbit_hours"] = line.network_mbit / 3600
        goods["network_cost"] = line.network_cost / MICRO
    if line.disk_mib or line.disk_cost:
        goods["disk_mib_hours"] = line.disk_mib / 3600
        goods["disk_cost"] = line.disk_cost / MICRO
    return goods
