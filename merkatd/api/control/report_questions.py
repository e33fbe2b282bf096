"""The control socket's questions whose answers are reports about the whole cloud."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from merkatd.api.control.account_questions import tenant_of
from merkatd.api.values.market_arguments import amounts_of
from merkatd.api.values.market_rows import Row, flat_row
from merkatd.api.values.report_rows import capacity_row, comparison_row, share_row
from merkatd.scheduler.traits.template_values import MAX_AMOUNT
from merkatd.service.base.arguments import Arguments, checked_amount, text, whole
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.reports.capacity import free_capacity
from merkatd.service.services import DaemonServices


class ReportQuestions:
    """The questions about months, shares, capacity and changed clouds."""

    def __init__(self, services: DaemonServices) -> None:
        self._services = services
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "capacity": self._capacity,
            "report": self._report,
            "shares": self._shares,
            "what_if": self._what_if,
        }

    async def _capacity(self, arguments: Arguments) -> Row:
        """Return the room for VMs of a size, `cpu`, `memory` ..., in a `market` or in all."""
        view = await self._services.views.prepared()
        size = {
            good: checked_amount(good, amount, MAX_AMOUNT) or 0.0
            for good, amount in amounts_of(arguments).items()
        }
        market = text(arguments, "market")
        return await self._services.world.executor.run(
            lambda: capacity_row(free_capacity(LOCAL, view, size, market))
        )

    async def _report(self, arguments: Arguments) -> list[Row]:
        """Return `months` months up to `month`, of all tenants or of a `tenant`."""
        count = whole(arguments, "months")
        rows = await self._services.tenant_reports.months(
            LOCAL,
            text(arguments, "month"),
            1 if count is None else count,
            await self._owner(arguments),
        )
        return [flat_row(row) for row in rows]

    async def _shares(self, arguments: Arguments) -> list[Row]:
        """Return what all tenants, or a `tenant`, may have of the cloud and have now."""
        view = (await self._services.views.prepared()).now
        owner = await self._owner(arguments)
        shares = await self._services.tenant_reports.shares(LOCAL, view, owner)
        return [share_row(share) for share in shares]

    async def _what_if(self, arguments: Arguments) -> Row:
        """Return the plan now, and the plan without hosts, with more, or with other budgets.

        `without` and `more` are lists of hosts, `budgets` has factors by tenants' ids or names.
        """
        budgets = arguments.get("budgets") or {}
        if not isinstance(budgets, dict):
            raise InvalidRequestError("budgets: must be factors by tenant")
        accounts = self._services.accounts
        owners = [await tenant_of(accounts, {"tenant": tenant}) for tenant in budgets]
        compared = await self._services.what_if.compare(
            LOCAL,
            _hosts(arguments, "without"),
            _hosts(arguments, "more"),
            dict(zip(owners, budgets.values(), strict=True)),
        )
        return await self._services.world.executor.run(lambda: comparison_row(compared))

    async def _owner(self, arguments: Arguments) -> int | None:
        if arguments.get("tenant") is None:
            return None
        return await tenant_of(self._services.accounts, arguments)


def _hosts(arguments: Arguments, name: str) -> Sequence[str]:
    """Return a list of hosts. Raise InvalidRequestError."""
    hosts = arguments.get(name) or []
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise InvalidRequestError(f"{name}: must be a list of hosts, by id or name")
    return hosts
