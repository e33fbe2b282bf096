"""Questions about the daemon itself: status, pause, drain."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster import VmState
from merkatd.cluster.snapshot_json import dumps
from merkatd.database.ledger import entry_store
from merkatd.database.scheduler import journal, period_store
from merkatd.database.scheduler.order_store import Order
from merkatd.scheduler.base.ports import CloudUnreachableError, Observation
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.observation.snapshot_builder import movable
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import Arguments, who
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodViews, host_row, trouble_of
from merkatd.service.modes import ModeQuestions


async def order_host(scheduler: Scheduler, what: Order, arguments: Arguments) -> dict[str, Any]:
    """Give an order about `host`; return whether it changed anything, and the VMs there."""
    seen = await _seen(scheduler)
    row = host_row(seen.host_id, seen.host_name, arguments)
    host = int(seen.host_id[row])
    changed = await scheduler.order(what, who(arguments), host)
    there = (seen.vm_host == host) & (seen.vm_state != int(VmState.ABSENT))
    return {
        "id": host,
        "name": seen.host_name[row],
        "changed": changed,
        "vms": int(there.sum()),
        "stay": int((there & ~movable(seen)).sum()),
    }


async def _seen(scheduler: Scheduler) -> Observation:
    """Return the present state of the cloud: an order waits for no period.

    If the cloud can't be reached, return the state that the latest period saw.
    """
    try:
        return await scheduler.world.cloud.observe()
    except CloudUnreachableError as error:
        if scheduler.latest is None:
            raise InvalidRequestError(f"the cloud can't be reached: {error}") from error
        return scheduler.latest.seen.observation


class ItselfQuestions:
    """The questions about the daemon's state, and the orders to it."""

    def __init__(self, scheduler: Scheduler, preparing: PeriodViews, modes: ModeQuestions) -> None:
        self._scheduler = scheduler
        self._modes = modes
        self._preparing = preparing
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "status": self.status,
            "pause": self._pause,
            "resume": self._resume,
            "drain": self._drain,
            "undrain": self._undrain,
            "snapshot": self._snapshot,
        }

    async def status(self, _arguments: Arguments) -> dict[str, Any]:
        """Return the state of the daemon, and the latest prices."""

        def read(connection: sa.Connection) -> dict[str, Any]:
            newest = period_store.newest(connection)
            return {
                "outstanding_steps": len(journal.outstanding(connection)),
                "newest_period": None if newest is None else newest.number,
                "newest_state": None if newest is None else str(newest.state),
                "accounts_sound": entry_store.total(connection) == 0,
                "quarantined": {
                    str(one.number): one.failure for one in period_store.quarantined(connection)
                },
            }

        stored = await self._scheduler.world.database.read(read)
        how = await self._modes.present()
        return stored | self.in_memory() | {"waiting_plan": how["waiting_plan"]}

    def in_memory(self) -> dict[str, Any]:
        """Return the part of the status that needs no database."""
        scheduler = self._scheduler
        latest = scheduler.latest
        reach = scheduler.world.hypervisors.reach()
        return {
            "mode": str(scheduler.mode),
            "configuration": scheduler.configuration,
            "paused": scheduler.paused,
            "standby": scheduler.standby,
            "drained_hosts": sorted(scheduler.drained),
            "failures": scheduler.failures,
            "interval_s": scheduler.world.rhythm.interval_s,
            "now_s": scheduler.world.now(),
            "period": None if latest is None else latest.period,
            "at_s": None if latest is None else latest.at_s,
            "prices": None if latest is None else _by_market(latest.prices),
            "hosts": None if latest is None else len(latest.seen.snapshot.hosts),
            "vms": None if latest is None else len(latest.seen.snapshot.vms),
            "hosts_away": {str(host): why for host, why in reach.away.items()},
            "drift": reach.drift,
            "hosts_in_error": {} if latest is None else dict(trouble_of(latest.seen.observation)),
            "failed_strategies": {} if latest is None else dict(latest.decided.decision.failed),
            "unattended": {
                str(kind): {str(one): why for one, why in scheduler.world.troubles.of(kind).items()}
                for kind in TroubleKind
            },
            "others": scheduler.foreign.why,
            "removed_users": {
                str(owner): f"its tenant is retired once {why}"
                for owner, why in scheduler.removed.waiting.items()
            },
            "retired_tenants": {
                str(owner): what for owner, what in scheduler.removed.retired.items()
            },
        }

    async def _pause(self, arguments: Arguments) -> bool:
        """Start no more periods until `resume`; return False if the daemon was paused already."""
        return await self._scheduler.order(Order.PAUSE, who(arguments))

    async def _resume(self, arguments: Arguments) -> bool:
        """End a pause; return False if the daemon was not paused."""
        return await self._scheduler.order(Order.RESUME, who(arguments))

    async def _drain(self, arguments: Arguments) -> dict[str, Any]:
        """Migrate the VMs of `host` away and place none there."""
        return await self._order_host(Order.DRAIN, arguments)

    async def _undrain(self, arguments: Arguments) -> dict[str, Any]:
        """Place VMs on `host` again."""
        return await self._order_host(Order.UNDRAIN, arguments)

    async def _order_host(self, what: Order, arguments: Arguments) -> dict[str, Any]:
        return await order_host(self._scheduler, what, arguments)

    async def _snapshot(self, _arguments: Arguments) -> str:
        """Return the snapshot of the latest decision as JSON text."""
        snapshot = self._preparing.latest.seen.snapshot
        return await self._scheduler.world.executor.run(lambda: dumps(snapshot))


def _by_market(
    prices: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float | None]]:
    """Return the prices for JSON, which has no infinity: None if no price clears the market."""
    return {
        market: {name: finite(one) for name, one in by_resource.items()}
        for market, by_resource in prices.items()
    }
