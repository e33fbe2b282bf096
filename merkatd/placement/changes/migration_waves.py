"""Waves of migrations: sent so that no refusal leaves a market worse than before.

See Note [Halves of plans] in `placement/market/plan_halves.py`. Steps that wait for memory or lack
approval count as missing, like refused ones. All steps are judged in the scene in which the
strategy decided. In another scene the plan may look harmful, and none of its steps would be sent,
in any period. Migrations off hosts where VMs must not stay are sent first; the others are judged
against the result.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Deploy, Migrate, Plan, Snapshot, Step
from merkatd.cluster.columns import NO_HOST, Ints
from merkatd.cluster.snapshot import view_of_market
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement.base.host_shares import terms_of_vms
from merkatd.placement.changes.decided_market import DecidedMarket
from merkatd.placement.market.plan_halves import Remaining, ordered


@dataclass(frozen=True, slots=True, eq=False)
class MigrationWaves:
    """The migrations of one market that are sent in this period."""

    view: MarketView
    rows: Mapping[int, int]
    """The market's rows, by VM id."""
    hosts: Mapping[int, int]
    harm: int
    first: tuple[Migrate, ...]
    """Migrations that are sent at once."""
    judged: tuple[Migrate, ...]
    """Migrations that are sent in waves."""
    deployed: tuple[Deploy, ...]
    planned: tuple[Migrate, ...]
    """All planned migrations, if the strategy's measure is another: no part may do more harm."""

    def remaining(self, done: Iterable[Migrate]) -> Remaining:
        """Return the migrations to judge, once these of the first are done."""
        before = self._with(self.view.place, (*done, *self.deployed))
        moves = {self.rows[step.vm]: self.hosts[step.host] for step in self.judged}
        stakes = terms_of_vms(self.view, self.view.first(before != NO_HOST).allocation)
        planned = self._with(before, self.planned) if self.planned else before
        return Remaining(self.view, stakes, self.harm, before, moves, planned)

    def step_of(self, row: int) -> Migrate:
        """Return the migration of the VM in this row."""
        return next(step for step in self.judged if self.rows[step.vm] == row)

    def begin(self) -> frozenset[int]:
        """Return the ids of the VMs whose migrations may start even if no other one follows."""
        if self.first:
            return frozenset(step.vm for step in self.first)
        return frozenset(self.step_of(row).vm for row in self.remaining(()).wave(alone=True))

    def _with(self, place: Ints, steps: Iterable[Migrate | Deploy]) -> Ints:
        place = place.copy()
        for step in steps:
            place[self.rows[step.vm]] = self.hosts[step.host]
        return place


def migration_waves(
    markets: Sequence[DecidedMarket], snapshot: Snapshot, plan: Plan, ready: Sequence[Step]
) -> list[MigrationWaves]:
    """Return the migrations among the ready steps, by market; none if each stands alone."""
    moves = [step for step in ready if isinstance(step, Migrate)]
    if len(moves) <= 1 and len(plan.of(Migrate)) <= 1:
        return []
    waves = []
    moved = snapshot.vms.market[[snapshot.vm_row(step.vm) for step in moves]]
    for row, market in enumerate(markets):
        if row not in moved:
            continue
        entry = market.entry
        harm = entry.harm(market.settings_in_force)
        planned = plan.of(Migrate) if entry.as_planned else ()
        scene = entry.scene(view_of_market(snapshot, row))
        waves_of_market = of_market(market_view(scene, row), scene, harm, ready, planned)
        if waves_of_market.judged:
            waves.append(waves_of_market)
    return waves


def vms_of_later_waves(waves: Sequence[MigrationWaves]) -> frozenset[int]:
    """Return the ids of the VMs whose migrations must wait for answers to other migrations."""
    return frozenset(
        step.vm
        for wave in waves
        for begun in (wave.begin(),)
        for step in (*wave.first, *wave.judged)
        if step.vm not in begun
    )


def of_market(
    view: MarketView,
    snapshot: Snapshot,
    harm: int,
    ready: Sequence[Step],
    planned: Sequence[Migrate],
) -> MigrationWaves:
    """Return the migrations of one market among the steps that are ready."""
    rows = {int(vm): row for row, vm in enumerate(snapshot.vms.id[view.vms])}
    hosts = {int(host): row for row, host in enumerate(snapshot.hosts.id[view.hosts])}
    here = [
        step
        for step in ready
        if isinstance(step, Migrate | Deploy) and step.vm in rows and step.host in hosts
    ]
    moves = [step for step in here if isinstance(step, Migrate)]
    must = ordered(snapshot, view) if moves else np.zeros(0, dtype=bool)
    return MigrationWaves(
        view=view,
        rows=rows,
        hosts=hosts,
        harm=harm,
        first=tuple(step for step in moves if must[rows[step.vm]]),
        judged=tuple(step for step in moves if not must[rows[step.vm]]),
        deployed=tuple(step for step in here if isinstance(step, Deploy)),
        planned=tuple(step for step in planned if step.vm in rows and step.host in hosts),
    )
