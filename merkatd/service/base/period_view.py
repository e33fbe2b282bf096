"""The public view of the latest period, with its quotes prepared once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from merkatd.base.deferreds import SharedResult
from merkatd.base.quantities import quoted_value
from merkatd.cluster import Decision, Floats, Ints, Plan, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_MARKET
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.limits import LimitPlan
from merkatd.market.explanation import hosts_after
from merkatd.market.quote import Quotes
from merkatd.placement.contract import Allocation, StrategyEntry
from merkatd.placement.markets_in_turn import DecisionBasis
from merkatd.placement.registry import strategy_named
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.charging.used_cpu import charged_rates
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import Announcement, messages, reasons_of
from merkatd.scheduler.phases.period_costs import costs_of_period
from merkatd.scheduler.terms.failed_migrations import reasons_by_host
from merkatd.service.base.arguments import text
from merkatd.service.base.errors import InvalidRequestError, TryAgainError


@dataclass(frozen=True, slots=True, eq=False)
class PeriodView:
    """The findings and decisions of a period; rows are those of the snapshot."""

    at_s: float
    snapshot: Snapshot
    states: Sequence[str]
    """[vms]: OpenNebula's names of the VMs' states at the start of the period."""
    decision: Decision
    limits: LimitPlan
    host: Ints
    """[vms]: the row of the VM's host, or of the target of its migration; -1 for none."""
    cost: Floats
    """[vms, resources]: the credits for a whole period; if use is charged, the most credits."""
    rate: Floats
    """[vms]: the credits per core used for a period; NaN if the market charges for shares."""
    messages: Mapping[int, str]
    """The messages to the owners, by VM id."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why VMs wait, or get less than they want, by VM id; messages about credits are not here."""
    owner_names: Mapping[int, str] = field(default_factory=dict)
    """The users' names by their ids."""
    group_names: Mapping[int, str] = field(default_factory=dict)
    """The names of the VMs' groups of users, by VM id."""
    charged_on: Mapping[int, str] = field(default_factory=dict)
    """The hosts on which OpenNebula still counts VMs without resources, by VM id."""
    trouble: Mapping[str, str] = field(default_factory=dict)
    """The states and errors of hosts that OpenNebula does not reach, by host name."""
    rates: Mapping[int, Rate] = field(default_factory=dict)
    """The VMs' parts of their groups' spending rates, by VM id."""
    failing_to_leave: Mapping[int, str] = field(default_factory=dict)
    """The VMs that fail to leave a host, and the reasons, by host id."""
    basis: DecisionBasis | None = None
    """What the decision depended on besides the snapshot; None if it is unknown."""

    def given(self) -> Floats:
        """Return the actual allocations on the present hosts: [vms, resources].

        If a step is postponed, its VM stays on its host, together with the VMs that were to get
        its resources. Until it leaves, all of them have less than was decided: a host can't give
        more than its capacity.
        """
        there = self.host != NO_HOST
        given = np.where(there[:, np.newaxis], self.decision.allocations, 0.0)
        asked = np.zeros_like(self.snapshot.hosts.capacity)
        np.add.at(asked, self.host[there], given[there])
        capacity = self.snapshot.hosts.capacity
        part = np.where(asked > capacity, capacity / np.maximum(asked, 1e-9), 1.0)
        given[there] *= part[self.host[there]]
        return given

    def host_name(self, row: int) -> str | None:
        """Return the name of the VM's host, or None."""
        at = int(self.host[row])
        if at == NO_HOST:
            return self.charged_on.get(int(self.snapshot.vms.id[row]))
        return self.snapshot.hosts.name[at]

    def market_of(self, row: int) -> int:
        """Return the market in which the VM takes part: that of its host, or else its own."""
        at = int(self.snapshot.vms.host[row])
        own = int(self.snapshot.vms.market[row])
        return own if own == NO_MARKET or at == NO_HOST else int(self.snapshot.hosts.market[at])

    def strategy_of(self, market: int) -> StrategyEntry | None:
        """Return the strategy that decided for the market in this row, or None."""
        if market == NO_MARKET or self.basis is None:
            return None
        return strategy_named(self.basis.markets[market].strategy)

    def has_own_amounts(self, row: int) -> bool:
        """Return whether a strategy alone states what the VM gets, so that bids have no effect."""
        entry = self.strategy_of(self.market_of(row))
        return entry is not None and entry.allocates is Allocation.OWN

    def market_name(self, market: int) -> str | None:
        """Return the name of the market in this row, or None for -1."""
        return None if market == NO_MARKET else self.snapshot.markets.name[market]


def present(latest: Announcement, markets: Sequence[MarketRules]) -> PeriodView:
    """Return the view of the announced period."""
    snapshot, decided = latest.seen.snapshot, latest.decided
    # In a mode that only watches, VMs stay where they are.
    host = hosts_after(snapshot, Plan() if latest.mode.watches else decided.decision.plan)
    for vm in decided.limits.postponed:
        if vm < 0:  # a creation: there is no VM to show yet
            continue
        row = snapshot.vm_row(vm)
        host[row] = snapshot.vms.host[row]
    host[snapshot.vms.state == VmState.ABSENT] = NO_HOST
    rate = charged_rates(latest.seen, markets)
    return PeriodView(
        at_s=latest.at_s,
        snapshot=snapshot,
        states=latest.seen.observation.vm_words,
        decision=decided.decision,
        limits=decided.limits,
        host=host,
        cost=costs_of_period(snapshot, decided.decision, decided.limits, host, markets, rate),
        rate=rate,
        messages=messages(latest.seen, decided),
        reasons=reasons_of(decided),
        owner_names=latest.seen.observation.owner_name,
        group_names=group_names_of(latest.seen.observation),
        charged_on=charged_on(latest.seen.observation),
        trouble=trouble_of(latest.seen.observation),
        rates=latest.seen.rates,
        failing_to_leave=reasons_by_host(snapshot, latest.seen.moves),
        basis=decided.basis,
    )


def group_names_of(seen: Observation) -> Mapping[int, str]:
    """Return the names of the VMs' groups of users, by VM id."""
    pairs = zip(seen.vm_id.tolist(), seen.vm_group.tolist(), strict=True)
    known = seen.group_name
    return {vm: known[group] for vm, group in pairs if group in known}


def charged_on(seen: Observation) -> Mapping[int, str]:
    """Return the hosts on which OpenNebula still counts failed VMs: names by VM id."""
    rows = np.flatnonzero((seen.vm_state == VmState.ABSENT) & (seen.vm_host >= 0))
    if not len(rows):
        return {}
    names = dict(zip(seen.host_id.tolist(), seen.host_name, strict=True))
    pairs = zip(seen.vm_id[rows].tolist(), seen.vm_host[rows].tolist(), strict=True)
    return {vm: names[host] for vm, host in pairs if host in names}


def trouble_of(seen: Observation) -> Mapping[str, str]:
    """Return the states and errors of hosts that OpenNebula does not reach, by host name."""
    return _by_name(seen, seen.host_trouble)


def mistakes_of(seen: Observation) -> Mapping[str, str]:
    """Return the mistakes in the attributes of hosts, by host name; those of a host as one text."""
    problems = {} if seen.host_traits is None else seen.host_traits.problems
    return _by_name(seen, {host: "; ".join(texts) for host, texts in problems.items()})


def _by_name(seen: Observation, by_host: Mapping[int, str]) -> Mapping[str, str]:
    names = dict(zip(seen.host_id.tolist(), seen.host_name, strict=True))
    return {names[host]: why for host, why in by_host.items()}


def vm_named(snapshot: Snapshot, named: str | None) -> int:
    """Return the id of the VM of this id or name. Raise InvalidRequestError."""
    vms = snapshot.vms
    return int(vms.id[_row_named("VM", "vm", vms.id, vms.name, named)])


def host_row_named(ids: Ints, names: Sequence[str], named: str | None) -> int:
    """Return the row of the host of this id or name. Raise InvalidRequestError."""
    return _row_named("host", "host", ids, names, named)


def _row_named(what: str, argument: str, ids: Ints, names: Sequence[str], named: str | None) -> int:
    """Return the row of this id, or else of this name; `argument` is named in errors."""
    wanted = text({argument: named}, argument)
    if wanted is None:
        raise InvalidRequestError(f"{argument}: must be the id or the name of a {what}")
    number_ = as_id(wanted)
    rows = [row for row, id_ in enumerate(ids.tolist()) if id_ == number_]
    rows = rows or [row for row, name in enumerate(names) if name == wanted]
    if not rows:
        raise InvalidRequestError(f"no {what} has the id or name {quoted_value(wanted)}")
    if len(rows) > 1:
        some = ", ".join(str(ids[row]) for row in rows[:5])
        more = ", ..." if len(rows) > 5 else ""
        raise InvalidRequestError(
            f"{len(rows)} {what}s have the name {quoted_value(wanted)}: use an id ({some}{more})"
        )
    return rows[0]


def as_id(wanted: str) -> int | None:
    """Return the id that the text represents, or None if it can't be an id."""
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= 10):
        return None
    return int(wanted)


@dataclass(frozen=True, slots=True, eq=False)
class QuotedView:
    """The prepared data of a period, for answers that need no pass over all VMs."""

    latest: Announcement
    now: PeriodView
    quotes: Sequence[Quotes]
    """The quotes by market."""
    by_use: Sequence[bool]
    """Whether each market charges for use."""
    markets: Sequence[MarketRules] = ()
    """The rules of each market."""


class PeriodViews:
    """The views of the latest period, prepared at the first question about it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._of: Announcement | None = None
        self._once: SharedResult[QuotedView] | None = None

    @property
    def latest(self) -> Announcement:
        """Return the latest period. Raise TryAgainError before the first period has ended."""
        if self._scheduler.latest is None:
            raise TryAgainError("no period has ended yet: try again in a moment")
        return self._scheduler.latest

    async def prepared(self) -> QuotedView:
        """Return the prepared latest period. Raise TryAgainError before the first has ended."""
        latest = self.latest
        if self._once is None or self._of is not latest or self._once.failed:
            self._of, self._once = latest, SharedResult(self._prepare(latest))
        return await self._once.result()

    async def _prepare(self, latest: Announcement) -> QuotedView:
        world = self._scheduler.world
        return await world.executor.run(lambda: prepare(latest, world.markets))


def prepare(latest: Announcement, markets: Sequence[MarketRules]) -> QuotedView:
    """Return the view of a period and its quotes."""
    now = present(latest, markets)
    held = held_memory.held(now.snapshot, now.limits)
    holds = held_memory.with_held(np.zeros_like(now.snapshot.vms.bid), held)
    quotes = [
        Quotes.of(
            now.snapshot,
            row,
            now.host,
            market.pricing.rule,
            market.pricing.reserve_prices(now.snapshot.resources),
            holds,
            latest.seen.claims if market.bids_bound else None,
        )
        for row, market in enumerate(markets)
    ]
    return QuotedView(latest, now, quotes, [market.by_use for market in markets], markets)
