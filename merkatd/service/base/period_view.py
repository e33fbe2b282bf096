"""The latest period as everybody may see it, with quotes prepared once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from merkatd.base.deferreds import SharedResult
from merkatd.base.quantities import shown
from merkatd.cluster import Decision, Floats, Ints, Plan, Snapshot, VmState
from merkatd.cluster.columns import NOWHERE
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.limits import LimitPlan
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.explanation import BIDDING, hosts_after
from merkatd.market.price import charges
from merkatd.market.quote import Quotes
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.charging.used_cpu import CPU, charged_rates
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import Announcement, messages
from merkatd.scheduler.terms.failed_migrations import notes
from merkatd.service.base.arguments import Arguments, text
from merkatd.service.base.errors import QuestionError, TryAgainError

PAYS = BIDDING
"""Once on a host, or on the way to one."""


@dataclass(frozen=True, slots=True, eq=False)
class PeriodView:
    """What a period found and decided; rows are the snapshot's."""

    at_s: float
    snapshot: Snapshot
    states: Sequence[str]
    """[vms]: OpenNebula's names, as they were seen when the period began."""
    decision: Decision
    limits: LimitPlan
    host: Ints
    """[vms]: the row of the host that the VM is on or is being taken to, -1 for none."""
    cost: Floats
    """[vms, resources]: credits that a whole period costs; where use is charged, at most."""
    rate: Floats
    """[vms]: credits for each core that is used for a period; NaN where shares are charged."""
    messages: Mapping[int, str]
    """By VM id: what its owner is told."""
    owner_names: Mapping[int, str] = field(default_factory=dict)
    """Of users by their ids."""
    charged_on: Mapping[int, str] = field(default_factory=dict)
    """By id of a VM that holds nothing: the host that OpenNebula charges for it all the same."""
    trouble: Mapping[str, str] = field(default_factory=dict)
    """By name of a host that OpenNebula does not reach: its state and error."""
    rates: Mapping[int, Rate] = field(default_factory=dict)
    """By VM id: what VMs have of their groups' spending rates."""
    failing_to_leave: Mapping[int, str] = field(default_factory=dict)
    """By host id: the VMs that fail to leave it, and why."""

    def given(self) -> Floats:
        """[vms, resources]: what each gets where it is now.

        A step that is put off leaves its VM where it was, beside those who were to have its room:
        until it goes they all have less than was decided, for no host gives more than it has.
        """
        there = self.host != NOWHERE
        given = np.where(there[:, np.newaxis], self.decision.allocations, 0.0)
        asked = np.zeros_like(self.snapshot.hosts.capacity)
        np.add.at(asked, self.host[there], given[there])
        whole = self.snapshot.hosts.capacity
        part = np.where(asked > whole, whole / np.maximum(asked, 1e-9), 1.0)
        given[there] *= part[self.host[there]]
        return given

    def host_name(self, row: int) -> str | None:
        """The name of the VM's host."""
        at = int(self.host[row])
        if at == NOWHERE:
            return self.charged_on.get(int(self.snapshot.vms.id[row]))
        return self.snapshot.hosts.name[at]

    def market_name(self, market: int) -> str | None:
        """The name of the market in this row; None for -1."""
        return None if market == NOWHERE else self.snapshot.markets.name[market]


def present(latest: Announcement, markets: Sequence[MarketRules]) -> PeriodView:
    """The present that this announcement tells of."""
    snapshot, decided = latest.seen.snapshot, latest.decided
    # What is only watched stays where it is.
    host = hosts_after(snapshot, Plan() if latest.mode.watches else decided.decision.plan)
    for vm in decided.limits.postponed:
        if vm < 0:  # a creation: there is nothing to show yet
            continue
        row = snapshot.vm_row(vm)
        host[row] = snapshot.vms.host[row]
    host[snapshot.vms.state == VmState.ABSENT] = NOWHERE
    rate = charged_rates(latest.seen, markets)
    return PeriodView(
        at_s=latest.at_s,
        snapshot=snapshot,
        states=latest.seen.observation.vm_words,
        decision=decided.decision,
        limits=decided.limits,
        host=host,
        cost=costs(snapshot, decided.decision, decided.limits, host, markets, rate),
        rate=rate,
        messages=messages(latest.seen, decided),
        owner_names=latest.seen.observation.owner_name,
        charged_on=charged_on(latest.seen.observation),
        trouble=trouble_of(latest.seen.observation),
        rates=latest.seen.rates,
        failing_to_leave=notes(snapshot, latest.seen.moves),
    )


def charged_on(seen: Observation) -> Mapping[int, str]:
    """By id of a VM that failed: the name of the host that OpenNebula charges for it."""
    rows = np.flatnonzero((seen.vm_state == VmState.ABSENT) & (seen.vm_host >= 0))
    if not len(rows):
        return {}
    names = dict(zip(seen.host_id.tolist(), seen.host_name, strict=True))
    pairs = zip(seen.vm_id[rows].tolist(), seen.vm_host[rows].tolist(), strict=True)
    return {vm: names[host] for vm, host in pairs if host in names}


def trouble_of(seen: Observation) -> Mapping[str, str]:
    """By name of a host that OpenNebula does not reach: its state and error."""
    names = dict(zip(seen.host_id.tolist(), seen.host_name, strict=True))
    return {names[host]: why for host, why in seen.host_trouble.items()}


def costs(
    snapshot: Snapshot,
    decision: Decision,
    limits: LimitPlan,
    host: Ints,
    markets: Sequence[MarketRules],
    rate: Floats,
) -> Floats:
    """[vms, resources]: what a whole period costs each VM that runs, or is about to.

    Where use is charged it is the cost of all that it may use: `rate` has what a core costs there.
    """
    pays = np.isin(snapshot.vms.state, PAYS) & (host != NOWHERE)
    found = np.zeros_like(snapshot.vms.bid)
    held_mib = held_memory.held(snapshot, limits)
    given = held_memory.with_held(decision.allocations, held_mib)
    floors = held_memory.with_held(snapshot.vms.floor, held_mib)
    for row, market in enumerate(markets):
        rows = np.flatnonzero(pays & (snapshot.vms.market == row))
        if market.by_use:
            found[rows, CPU] = rate[rows] * decision.allocations[rows, CPU] / UNITS_PER_CORE
            continue
        found[rows] = charges(
            snapshot.vms.bid[rows],
            given[rows],
            np.tile(decision.prices[row], (len(rows), 1)),
            1.0,
            floors=floors[rows],
            reserve=market.pricing.reserve_prices(snapshot.resources),
        )
    return found


def vm_row(snapshot: Snapshot, arguments: Arguments) -> int:
    """The row of the VM that `vm` names."""
    return _row("VM", "vm", snapshot.vms.id, snapshot.vms.name, arguments)


def host_row(ids: Ints, names: Sequence[str], arguments: Arguments) -> int:
    """The row of the host that `host` names."""
    return _row("host", "host", ids, names, arguments)


def _row(what: str, argument: str, ids: Ints, names: Sequence[str], arguments: Arguments) -> int:
    """By id where it is a number that one has, else by name."""
    wanted = text(arguments, argument)
    if wanted is None:
        raise QuestionError(f"{argument}: the id or the name of a {what} is right")
    number_ = as_id(wanted)
    found = [row for row, id_ in enumerate(ids.tolist()) if id_ == number_]
    found = found or [row for row, name in enumerate(names) if name == wanted]
    if not found:
        raise QuestionError(f"no {what} is called {shown(wanted)}, by id or by name")
    if len(found) > 1:
        some = ", ".join(str(ids[row]) for row in found[:5])
        more = ", ..." if len(found) > 5 else ""
        raise QuestionError(
            f"{len(found)} {what}s are called {shown(wanted)}: say which by its id ({some}{more})"
        )
    return found[0]


def as_id(wanted: str) -> int | None:
    """The number that a text is; None where it is none that an id can be."""
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= 10):
        return None
    return int(wanted)


@dataclass(frozen=True, slots=True, eq=False)
class QuotedView:
    """What can be asked of a period without looking at every VM again."""

    latest: Announcement
    now: PeriodView
    quotes: Sequence[Quotes]
    """By market,"""
    by_use: Sequence[bool]
    """and whether it charges for use."""
    markets: Sequence[MarketRules] = ()


class PeriodViews:
    """Prepares each period when somebody first asks about it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._of: Announcement | None = None
        self._once: SharedResult[QuotedView] | None = None

    @property
    def latest(self) -> Announcement:
        """The latest period. Raises NotNowError."""
        if self._scheduler.latest is None:
            raise TryAgainError("there was no period yet: try again in a moment")
        return self._scheduler.latest

    async def prepared(self) -> QuotedView:
        """The latest period, prepared. Raises NotNowError."""
        latest = self.latest
        if self._once is None or self._of is not latest or self._once.failed:
            self._of, self._once = latest, SharedResult(self._prepare(latest))
        return await self._once.result()

    async def _prepare(self, latest: Announcement) -> QuotedView:
        world = self._scheduler.world
        return await world.executor.run(lambda: prepare(latest, world.markets))


def prepare(latest: Announcement, markets: Sequence[MarketRules]) -> QuotedView:
    """Everything that quotes are made from."""
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
