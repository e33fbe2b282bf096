"""The control socket's questions that list hosts, VMs, steps and limits, and show the plan."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from merkatd.api.values.listing_rows import application_row, host_row, vm_row
from merkatd.api.values.market_rows import Row, flat_row
from merkatd.api.values.plan_rows import plan_row
from merkatd.protocol.control_messages import KINDS, STATES
from merkatd.service.base.arguments import Arguments, number, one_of, order_author, text, whole
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodView, as_id, host_row_named, vm_named
from merkatd.service.market.limit_view import LimitRow
from merkatd.service.market.step_history import DEFAULT_STEPS, StepQuery
from merkatd.service.services import DaemonServices

Listed = TypeVar("Listed")
LONGEST_S = 1e12
"""The largest accepted time since the epoch."""


class ListingQuestions:
    """The questions whose answers are lists, and the question about the plan."""

    def __init__(self, services: DaemonServices) -> None:
        self._services = services
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "accounts": self._accounts,
            "applications": self._applications,
            "hosts": self._hosts,
            "limits": self._limits,
            "plan": self._plan,
            "release": self._release,
            "steps": self._steps,
            "vms": self._vms,
        }

    async def _hosts(self, _arguments: Arguments) -> list[Row]:
        """Return every host with its capacity, allocations, bids and last observed use."""
        return await self._rows(
            await self._services.listings.hosts(LOCAL, await self._now()), host_row
        )

    async def _vms(self, _arguments: Arguments) -> list[Row]:
        """Return every VM with its host, bids, allocations, cost, and the message to its owner."""
        return await self._rows(await self._services.listings.vms(LOCAL, await self._now()), vm_row)

    async def _applications(self, _arguments: Arguments) -> list[Row]:
        """Return every application, and for each tenant its VMs outside of applications."""
        applications = await self._services.listings.applications(LOCAL, await self._now())
        return await self._rows(applications, application_row)

    async def _accounts(self, _arguments: Arguments) -> list[Row]:
        """Return every tenant's balance in credits."""
        balances = await self._services.listings.balances(LOCAL)
        return [{"owner": owner, "credits": balance} for owner, balance in balances.items()]

    async def _steps(self, arguments: Arguments) -> list[Row]:
        """Return the newest steps, newest first, by vm, host, kind, state, periods or time."""
        latest = self._services.scheduler.latest
        snapshot = None if latest is None else latest.seen.snapshot
        vm, host = self._id("vm", arguments), self._id("host", arguments)
        state, limit = one_of(arguments, "state", STATES), whole(arguments, "limit")
        kind = one_of(arguments, "kind", KINDS)
        query = StepQuery(
            vm=vm,
            host=host,
            kinds=None if kind is None else frozenset({kind}),
            state=state,
            first_period=whole(arguments, "first_period"),
            last_period=whole(arguments, "last_period"),
            since_s=number(arguments, "since_s", LONGEST_S),
        )
        most = DEFAULT_STEPS if limit is None else limit
        steps = await self._services.steps.steps(LOCAL, snapshot, query, most)
        return [flat_row(row) for row in steps]

    async def _plan(self, _arguments: Arguments) -> Row:
        """Return the plan of a period that would start now."""
        return plan_row(await self._services.plans.dry_run(LOCAL))

    async def _limits(self, arguments: Arguments) -> list[Row]:
        """Return the decided and enforced limits and the use, of all VMs or those of `of`."""
        view = await self._services.views.prepared()
        of = text(arguments, "of")
        return [_limits(limits) for limits in await self._services.limits.limits(LOCAL, view, of)]

    async def _release(self, arguments: Arguments) -> Any:
        """Without `vms`, pause and return the ids of all VMs; with `vms`, release their limits."""
        caller = LOCAL.signing(order_author(arguments))
        wanted = arguments.get("vms")
        if wanted is None:
            return await self._services.limits.pause_for_release(caller)
        if not isinstance(wanted, list) or not all(isinstance(vm, int) for vm in wanted):
            raise InvalidRequestError("vms: must be a list of ids")
        return [
            flat_row(outcome) for outcome in await self._services.limits.release(caller, wanted)
        ]

    async def _now(self) -> PeriodView:
        return (await self._services.views.prepared()).now

    async def _rows(self, listed: Iterable[Listed], row: Callable[[Listed], Row]) -> list[Row]:
        """Return rows that a thread makes, so that the reactor is not blocked."""
        return await self._services.world.executor.run(lambda: [row(price) for price in listed])

    def _id(self, what: str, arguments: Arguments) -> int | None:
        """Return the id of a VM or host, which may be gone by now, or None if not given."""
        if isinstance(arguments.get(what), int):
            return whole(arguments, what)
        wanted = text(arguments, what)
        if wanted is None:
            return None
        id_ = as_id(wanted)
        if id_ is not None:
            return whole({what: id_}, what)
        snapshot = self._services.views.latest.seen.snapshot
        if what == "vm":
            return vm_named(snapshot, wanted)
        hosts = snapshot.hosts
        return int(hosts.id[host_row_named(hosts.id, hosts.name, wanted)])


def _limits(limits: LimitRow) -> Row:
    columns: Row = {}
    for name, value in flat_row(limits).items():
        if name != "further":
            columns[name] = value
            continue
        for good, limit in limits.further.items():
            columns |= {good: limit.share, f"set_{good}": limit.limit}
    return columns
