"""Answers to the commands' questions about budgets and statements."""

from collections.abc import Callable, Mapping
from typing import Any

from merkat.answers.json_rows import json_row
from merkat.answers.tenant_names import TenantNames
from merkatd.client import Merkat, MissingError, Statement, StatementVm
from merkatd.commands.terminal.command_parser import NotDoneError
from merkatd.currency import MICRO


class MoneyAnswers:
    """The answers about credits."""

    def __init__(self, merkat: Merkat, names: TenantNames) -> None:
        self._merkat = merkat
        self._names = names
        self.known: Mapping[str, Callable[..., Any]] = {
            "account": self._account,
            "budget": self._budget,
            "budgets": self._budgets,
            "report": self._report,
            "shares": self._shares,
            "statement": self._statement,
        }

    def _budgets(self, tenant: str | None = None) -> Any:
        budgets = self._merkat.budgets(self._names.tenant(tenant))
        rows = [_budget_row(budget) for budget in budgets]
        return rows if tenant else [row for row in rows if row["ended_s"] is None]

    def _account(self) -> Any:
        """Return the row of the login's own account, which belongs to no application, if any."""
        try:
            own = self._merkat.tenant()
        except MissingError:
            return []
        row = {
            "application": None,
            "name": "own account",
            "owner": own.id,
            "owner_name": own.name,
            "budget": own.entitlement,
            "replenishment": None,
            "balance": own.balance,
            "reserved": own.reserved,
            "debt": own.debt,
            "opened_s": None,
            "ended_s": None,
            "micro": _micro(own.balance),
        }
        return [row]

    def _budget(
        self, application: int, amount: float | None = None, replenishment: float | None = None
    ) -> Any:
        if amount is None and replenishment is None:
            for budget in self._merkat.budgets():
                if budget.application == application:
                    return _budget_row(budget)
            raise NotDoneError(f"application {application} does not exist or is not yours")
        changed = self._merkat.set_budget(application, budget=amount, replenishment=replenishment)
        return _budget_row(changed)

    def _report(self, tenant: str | None = None, month: str = "", months: int = 1) -> Any:
        rows = self._merkat.report(self._names.tenant(tenant), month, months)
        return [{**json_row(row), "micro": _micro(row.cost)} for row in rows]

    def _shares(self, tenant: str | None = None) -> Any:
        return [json_row(self._merkat.share(self._names.tenant(tenant)))]

    def _statement(self, tenant: str | None = None, month: str = "") -> Any:
        statement = self._merkat.statement(self._names.tenant(tenant), month)
        return {
            "id": statement.id,
            "name": statement.name,
            "group": statement.group,
            "group_name": statement.group_name,
            "month": statement.month,
            "opening": _micro(statement.opening),
            "movements": {kind: _micro(sum_) for kind, sum_ in statement.movements.items()},
            "closing": _micro(statement.closing),
            "charged": _micro(statement.charged),
            "missing": _micro(statement.missing),
            "debt": _micro(statement.debt),
            "difference": _micro(statement.difference),
            "lines": [_line(statement, vm) for vm in statement.vms],
        }


def _line(statement: Statement, vm: StatementVm) -> dict[str, Any]:
    year, _, month = statement.month.partition("-")
    row = {
        "uid": statement.id,
        "user_name": statement.name,
        "gid": statement.group,
        "group_name": statement.group_name,
        "vm_id": vm.vm,
        "vm_name": vm.name,
        "month": int(month),
        "year": int(year),
        "hours": vm.hours,
        "running_hours": vm.hours,
        "cpu_hours": vm.cpu_core_hours,
        "memory_hours": vm.memory_gib_hours,
        "account": vm.account,
        "cpu_cost": vm.cpu_cost,
        "memory_cost": vm.memory_cost,
    }
    for good, hours in (
        ("network", vm.network_mbit_hours),
        ("disk", vm.disk_mib_hours),
    ):
        if hours:
            hours_name = "network_mbit_hours" if good == "network" else "disk_mib_hours"
            row |= {hours_name: hours, f"{good}_cost": getattr(vm, f"{good}_cost")}
    return {**row, "cost": vm.total_cost, "micro": _micro(vm.total_cost)}


def _budget_row(budget: Any) -> dict[str, Any]:
    row = json_row(budget)
    return {**row, "micro": _micro(row["balance"])}


def _micro(credits_: float) -> int:
    return round(credits_ * MICRO)
