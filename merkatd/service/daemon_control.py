"""The service of the daemon itself: its status, pauses, and hosts that are drained."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.base.quantities import finite, quoted_value
from merkatd.cluster import VmState
from merkatd.cluster.snapshot_json import dumps
from merkatd.database.ledger import entry_store
from merkatd.database.scheduler import journal, order_store, period_store
from merkatd.database.scheduler.order_store import Order, StoredOrder
from merkatd.scheduler.base.ports import CloudUnreachableError, Observation
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.observation.snapshot_builder import movable
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import ConflictError, InvalidRequestError
from merkatd.service.base.period_view import (
    PeriodViews,
    as_id,
    host_row_named,
    mistakes_of,
    trouble_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStatus:
    """The part of the status that the database has."""

    outstanding_steps: int
    newest_period: int | None
    newest_state: str | None
    accounts_sound: bool
    """Whether all entries of the ledger add up to zero."""
    quarantined: Mapping[int, str | None]
    """The failures of periods that could not be charged, by period."""
    orders: Sequence[StoredOrder]
    """The orders of administrators that apply now: a pause, drained hosts, and a mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonState:
    """The part of the status that needs no database."""

    started_s: float
    """The time at which this daemon started."""
    mode: str
    configuration: str | None
    paused: bool
    standby: str | None
    """The reason why another daemon is active instead."""
    drained_hosts: Sequence[int]
    host_names: Mapping[int, str]
    """The names of the drained hosts, by their ids."""
    failures: int
    """The number of periods that failed since the last that did not."""
    interval_s: float
    now_s: float
    clock_ahead_s: float
    """The seconds by which the clock is ahead of the believed time; 0 if it is believed."""
    period: int | None
    at_s: float | None
    prices: Mapping[str, Mapping[str, float | None]] | None
    """The prices by market and resource; None for a price that clears no market."""
    hosts: int | None
    vms: int | None
    hosts_away: Mapping[int, str]
    drift: int
    hosts_in_error: Mapping[str, str]
    host_attributes: Mapping[str, str]
    """The mistakes in the attributes of hosts, by host name."""
    failed_strategies: Mapping[str, str]
    unattended: Mapping[str, Mapping[int, str]]
    """The errors with which the daemon fails to manage things, by kind and id."""
    others: str | None
    removed_users: Mapping[int, str]
    retired_tenants: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """The whole status."""

    stored: StoredStatus
    state: DaemonState


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOrder:
    """A host after an order about it."""

    id: int
    name: str
    changed: bool
    """Whether the order changed anything."""
    vms: int
    stay: int
    """The number of VMs there that can't be moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOrder:
    """An order of an administrator."""

    at_s: float
    kind: str
    order: str
    """The order in words, such as `mode ask`."""
    host: str | None
    """The host that it is about: its name, or its id if it is gone."""
    who: str
    origin: str | None
    """The interface and the address that it came from, if they are known."""


class DaemonControl:
    """The status of the daemon, and administrators' orders to it."""

    def __init__(self, scheduler: Scheduler, views: PeriodViews) -> None:
        self._scheduler = scheduler
        self._views = views
        self._started_s = scheduler.world.now()

    async def status(self) -> DaemonStatus:
        """Return the state of the daemon, and the latest prices."""

        def read(connection: sa.Connection) -> StoredStatus:
            newest = period_store.newest(connection)
            return StoredStatus(
                outstanding_steps=len(journal.outstanding(connection)),
                newest_period=None if newest is None else newest.number,
                newest_state=None if newest is None else str(newest.state),
                accounts_sound=entry_store.total(connection) == 0,
                quarantined={
                    period.number: period.failure for period in period_store.quarantined(connection)
                },
                orders=order_store.orders_in_force(connection),
            )

        stored = await self._scheduler.world.database.read(read)
        return DaemonStatus(stored, self.state())

    def state(self) -> DaemonState:
        """Return the part of the status that needs no database."""
        scheduler = self._scheduler
        latest = scheduler.latest
        reach = scheduler.world.hypervisors.reach()
        return DaemonState(
            started_s=self._started_s,
            mode=str(scheduler.mode),
            configuration=scheduler.configuration,
            paused=scheduler.paused,
            standby=scheduler.standby,
            drained_hosts=sorted(scheduler.drained),
            host_names={} if latest is None else _names(latest.seen.observation, scheduler.drained),
            failures=scheduler.failures,
            interval_s=scheduler.world.rhythm.interval_s,
            now_s=scheduler.world.now(),
            clock_ahead_s=scheduler.world.believed.ahead_s,
            period=None if latest is None else latest.period,
            at_s=None if latest is None else latest.at_s,
            prices=None if latest is None else _by_market(latest.prices),
            hosts=None if latest is None else len(latest.seen.snapshot.hosts),
            vms=None if latest is None else len(latest.seen.snapshot.vms),
            hosts_away=dict(reach.away),
            drift=reach.drift,
            hosts_in_error={} if latest is None else dict(trouble_of(latest.seen.observation)),
            host_attributes={} if latest is None else dict(mistakes_of(latest.seen.observation)),
            failed_strategies={} if latest is None else dict(latest.decided.decision.failed),
            unattended={str(kind): dict(scheduler.world.troubles.of(kind)) for kind in TroubleKind},
            others=scheduler.foreign.why,
            removed_users={
                owner: f"its tenant is retired once {why}"
                for owner, why in scheduler.removed.waiting.items()
            },
            retired_tenants=dict(scheduler.removed.retired),
        )

    async def pause(self, caller: Caller, by: str) -> bool:
        """Start no more periods until `resume`; return False if the daemon was paused already."""
        require_admin(caller, "ADMIN DAEMON")
        return await self._scheduler.order(Order.PAUSE, by, by=caller.origin)

    async def resume(self, caller: Caller, by: str) -> bool:
        """End a pause; return False if the daemon was not paused."""
        require_admin(caller, "ADMIN DAEMON")
        return await self._scheduler.order(Order.RESUME, by, by=caller.origin)

    async def drain(self, caller: Caller, host: str | None, by: str) -> HostOrder:
        """Migrate the VMs of a host away and place none there; `host` is its id or name."""
        return await self._order_host(caller, Order.DRAIN, host, by)

    async def undrain(self, caller: Caller, host: str | None, by: str) -> HostOrder:
        """Place VMs on a host again; `host` is its id or name."""
        return await self._order_host(caller, Order.UNDRAIN, host, by)

    async def snapshot(self, caller: Caller) -> str:
        """Return the snapshot and the basis of the latest decision as JSON text.

        In mode ask that is the decision to propose steps, in periods without approved ones.
        """
        require_admin(caller, "ADMIN DAEMON")
        seen, decided = self._views.latest.seen, self._views.latest.decided
        snapshot = decided.proposed_from or decided.decision.decided_from or seen.snapshot
        return await self._scheduler.world.executor.run(
            lambda: dumps(snapshot, decided.basis.to_json())
        )

    async def orders(
        self,
        caller: Caller,
        limit: int,
        kind: str | None = None,
        since_s: float | None = None,
        host: str | None = None,
    ) -> list[RecordedOrder]:
        """Return the newest orders of administrators, newest first. Raise RequestError."""
        require_admin(caller, "ADMIN DAEMON")
        names: Mapping[int, str] = {}
        latest = self._scheduler.latest
        if latest is not None:
            seen = latest.seen.observation
            names = dict(zip(seen.host_id.tolist(), seen.host_name, strict=True))
        about = None if host is None else _host_id(names, host)
        of_kind = [order for order in Order if _kind(order) == kind]
        stored = await self._scheduler.world.database.read(
            lambda connection: order_store.history(
                connection, limit, of_kind or None, since_s or 0.0, about
            )
        )
        return [
            RecordedOrder(
                at_s=order.at_s,
                kind=_kind(order.what),
                order=str(order.what),
                host=None if order.host is None else names.get(order.host, str(order.host)),
                who=order.who,
                origin=order.origin or None,
            )
            for order in stored
        ]

    async def touch_database(self) -> None:
        """Read a small row, to test whether the database answers."""
        await self._scheduler.world.database.read(period_store.newest)

    async def _order_host(
        self, caller: Caller, what: Order, host: str | None, by: str
    ) -> HostOrder:
        require_admin(caller, "ADMIN HOST")
        seen = await self._seen()
        row = host_row_named(seen.host_id, seen.host_name, host)
        id_ = int(seen.host_id[row])
        changed = await self._scheduler.order(what, by, id_, caller.origin)
        there = (seen.vm_host == id_) & (seen.vm_state != int(VmState.ABSENT))
        return HostOrder(
            id=id_,
            name=seen.host_name[row],
            changed=changed,
            vms=int(there.sum()),
            stay=int((there & ~movable(seen)).sum()),
        )

    async def _seen(self) -> Observation:
        """Return the present state of the cloud: an order waits for no period.

        If the cloud can't be reached, return the state that the latest period saw.
        """
        scheduler = self._scheduler
        try:
            return await scheduler.world.cloud.observe()
        except CloudUnreachableError as error:
            if scheduler.latest is None:
                raise ConflictError(f"the cloud can't be reached: {error}") from error
            return scheduler.latest.seen.observation


def _kind(order: Order) -> str:
    """Return the kind of an order: its first word."""
    return str(order).partition(" ")[0]


def _host_id(names: Mapping[int, str], host: str) -> int:
    """Return the id of a host, which may be gone by now. Raise InvalidRequestError."""
    known = as_id(host)
    if known is not None:
        return known
    for id_, name in names.items():
        if name == host:
            return id_
    raise InvalidRequestError(f"no host has the id or name {quoted_value(host)}")


def _names(seen: Observation, hosts: Collection[int]) -> dict[int, str]:
    """Return the names of those of these hosts that exist."""
    rows = zip(seen.host_id.tolist(), seen.host_name, strict=True)
    return {host: name for host, name in rows if host in hosts}


def _by_market(
    prices: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float | None]]:
    """Return the prices with None where no price clears the market."""
    return {
        market: {name: finite(price) for name, price in by_resource.items()}
        for market, by_resource in prices.items()
    }
