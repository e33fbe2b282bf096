"""Tenants, budgets and statements as JSON, for the control socket and the tenants' interface.

Amounts are credits, for people. Where programs add them up, the micro-credits are there too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from merkatd.currency.statement import StatementLine
from merkatd.ledger import MICRO, BudgetRow, Note, Statement, TenantAccount

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """The names of users and groups by their ids."""

    users: Mapping[int, str] = field(default_factory=dict)
    groups: Mapping[int, str] = field(default_factory=dict)


def standing_row(one: TenantAccount, names: Names) -> Row:
    """Return a tenant with its balances."""
    return {
        "id": one.owner,
        "name": one.name,
        "group": one.group,
        "group_name": None if one.group is None else names.groups.get(one.group),
        "weight": one.weight,
        "own_weight": one.own_weight,
        "entitlement": one.entitlement / MICRO,
        "balance": one.balance / MICRO,
        "in_applications": one.in_applications / MICRO,
        "holdings": one.holdings / MICRO,
        "reserved": one.reserved / MICRO,
        "debt": one.debt / MICRO,
        "micro": one.holdings,
        "retired_s": one.retired_s,
    }


def budget_row(one: BudgetRow, owner_name: str | None) -> Row:
    """Return the budget of an application."""
    return {
        "application": one.application,
        "name": one.name,
        "owner": one.owner,
        "owner_name": owner_name,
        "budget": one.initial / MICRO,
        "replenishment": one.replenishment / MICRO,
        "balance": one.balance / MICRO,
        "reserved": one.reserved / MICRO,
        "debt": one.debt / MICRO,
        "micro": one.balance,
        "opened_s": one.opened_s,
        "ended_s": one.ended_s,
    }


def note_row(note: Note) -> Row:
    """Return a note on an action of an administrator or of the policy."""
    return {
        "at_s": note.at_s,
        "kind": str(note.kind),
        "who": note.who,
        "tenant": note.owner,
        "text": note.text,
    }


def statement_row(found: Statement, names: Names) -> Row:
    """Return a statement, in credits and in micro-credits that add up exactly."""
    group_name = None if found.group is None else names.groups.get(found.group)
    return {
        "id": found.owner,
        "name": found.name,
        "group": found.group,
        "group_name": group_name,
        "month": str(found.month),
        "opening": found.opening,
        "movements": dict(found.movements),
        "closing": found.closing,
        "charged": found.charged,
        "missing": found.missing,
        "debt": found.debt,
        "difference": found.difference,
        "lines": [
            {
                "uid": found.owner,
                "user_name": found.name,
                "gid": found.group,
                "group_name": group_name,
                "vm_id": line.vm,
                "vm_name": line.name,
                "month": found.month.month,
                "year": found.month.year,
                "hours": line.seconds / 3600,
                "running_hours": line.seconds / 3600,
                "cpu_hours": line.cpu_core_s / 3600,
                "memory_hours": line.memory_gib_s / 3600,
                "account": line.account,
                "cpu_cost": line.cpu_cost / MICRO,
                "memory_cost": line.memory_cost / MICRO,
                **further(line),
                "cost": line.cost / MICRO,
                "micro": line.cost,
            }
            for line in found.lines
        ],
    }


def further(line: StatementLine) -> Row:
    """Return the hours and cost of network and disk, if they were sold to the VM."""
    found: Row = {}
    if line.network_mbit or line.network_cost:
        found["network_mbit_hours"] = line.network_mbit / 3600
        found["network_cost"] = line.network_cost / MICRO
    if line.disk_mib or line.disk_cost:
        found["disk_mib_hours"] = line.disk_mib / 3600
        found["disk_cost"] = line.disk_cost / MICRO
    return found
