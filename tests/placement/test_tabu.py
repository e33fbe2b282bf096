"""Strategy `tabu`: near the known optimum, and always within its limits."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Decision, HostState, Ints, Migrate, Snapshot, VmState
from merkatd.market.error import assess_placement, errors, weighted_shortfall
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement import strategy_named
from merkatd.placement.base.board import excess
from merkatd.placement.base.least_load import start_market
from merkatd.placement.tabu.paper import MarketSettings, algorithm_1
from merkatd.placement.tabu.tabu import Objective, TabuSettings, tabu
from tests.clouds import cloud, crowded, flavoured, hosts_table, placed, tangled, vms_table
from tests.lengths import pair, shorten

RNG = np.random.default_rng(0)
UNLIMITED: dict[str, Any] = {"hold_s": 0.0, "least_gain": 0.0, "migrations_per_host": 10**6}


def objective_of(view: MarketView, place: Ints, objective: Objective) -> float:
    """Return the strategy's objective, computed by the market's own functions."""
    first = view.first(place >= 0).allocation
    given = view.on_hosts(place).allocation
    if objective is Objective.ERROR:
        return float(errors(first, given).max(initial=0.0))
    return weighted_shortfall(view.bid, first, given)


def harm_of(view: MarketView, place: Ints, objective: Objective) -> float:
    """Return the harm that must not increase while a plan is executed."""
    if objective is Objective.SHORTFALL:
        return objective_of(view, place, objective)
    first = view.first(place >= 0).allocation
    lack = np.maximum(first - view.on_hosts(place).allocation, 0.0)
    return float((lack[first > 0] / first[first > 0]).max(initial=0.0))


def optimum(view: MarketView, objective: Objective) -> float:
    """Return the best objective with at most two migrations, by brute force.

    Pairs in which either migration alone would do harm are left out.
    """
    hosts = range(len(view.hosts))
    best = objective_of(view, view.place, objective)
    least_harm = harm_of(view, view.place, objective) + 1e-9
    alone = {}
    for change in itertools.product(range(len(view.place)), hosts):
        place = view.place.copy()
        place[change[0]] = change[1]
        alone[change] = harm_of(view, place, objective)
    for first, second in itertools.combinations(alone, 2):
        place = view.place.copy()
        place[first[0]], place[second[0]] = first[1], second[1]
        floors = np.stack([view.floor[place == host].sum(axis=0) for host in hosts])
        if first[0] != second[0] and (floors <= view.capacity).all():
            bad = min(alone[first], alone[second]) > max(
                least_harm, harm_of(view, place, objective) if objective is Objective.ERROR else 0
            )
            if not bad:
                best = min(best, objective_of(view, place, objective))
    return best


def small(seed: int, floors: bool) -> Snapshot:
    """Return 3 hosts with 6 VMs."""
    rng = np.random.default_rng(seed)
    cap = rng.uniform(50, 300, (6, 2))
    return cloud(
        hosts_table(rng.uniform(200, 500, (3, 2))),
        vms_table(
            rng.integers(0, 3, 6),
            rng.lognormal(0, 1, (6, 2)),
            cap,
            floor=cap * 0.2 if floors else np.zeros((6, 2)),
        ),
    )


@pytest.mark.parametrize(("objective", "floors"), pair([*Objective], [True, False]))
def test_within_a_tenth_of_the_optimum_on_95_of_100_small_clouds(
    objective: Objective, floors: bool
) -> None:
    """With M_max 2 and E_max 0, results are within 10 % of brute force on 95 of 100 clouds."""
    settings = TabuSettings(objective=objective, m_max_part=0.0, m_max_least=2, e_max=0.0)
    near, clouds = 0, shorten(100, 10)
    for seed in range(clouds):
        snapshot = small(seed, floors)
        view = market_view(snapshot, 0)
        got = objective_of(view, placed(snapshot, tabu(snapshot, settings, {}, RNG)), objective)
        best = optimum(view, objective)
        near += got <= max(best * 1.1, best + 1e-9)
    assert near >= 0.95 * clouds


@pytest.mark.parametrize(("objective", "seed"), [(Objective.SHORTFALL, 59), (Objective.ERROR, 57)])
def test_the_search_passes_through_worse_placements(objective: Objective, seed: int) -> None:
    """On these clouds, a search that ends at the first worse placement reaches half as much."""
    snapshot = small(seed, floors=False)
    view = market_view(snapshot, 0)
    patient, hasty = (
        objective_of(view, placed(snapshot, tabu(snapshot, settings, {}, RNG)), objective)
        for settings in (
            TabuSettings(objective=objective),
            TabuSettings(objective=objective, n_iter=1),
        )
    )
    assert patient < 0.5 * hasty


@pytest.mark.parametrize("seed", range(shorten(60, 20)))
def test_tabu_is_never_worse_than_paper_by_the_papers_objective(seed: int) -> None:
    """Under the same limits and with all constraints, no market has a larger error."""
    snapshot = tangled(seed, vms=10 + seed) if seed % 3 else crowded(10 + seed, seed)
    printed = MarketSettings(e_max=0.0)
    settings = TabuSettings(objective=Objective.ERROR, e_max=0.0, **UNLIMITED)
    ours = assess_placement(snapshot, placed(snapshot, tabu(snapshot, settings, {}, RNG)))
    paper = strategy_named("paper").decide(snapshot, settings=printed)
    theirs = assess_placement(snapshot, placed(snapshot, paper))
    assert (ours.largest_error <= theirs.largest_error + 1e-12).all()
    assert len(algorithm_1(start_market(snapshot, 0), printed)) == len(market_view(snapshot, 0).vms)


def settled(seed: int, overfull: bool) -> Snapshot:
    """Return a cloud with all constraints, but without new VMs and drained hosts.

    Without `overfull`, floors that exceed their host are lowered.
    """
    snapshot = tangled(seed, hosts=4 + seed % 5, vms=12 + seed % 60)
    hosts, vms = snapshot.hosts, snapshot.vms
    drained, waits = hosts.state == HostState.DRAINED, vms.state == VmState.PENDING
    snapshot = replace(
        snapshot,
        hosts=replace(hosts, state=np.where(drained, int(HostState.ON), hosts.state)),
        vms=replace(vms, state=np.where(waits, int(VmState.ABSENT), vms.state)),
    )
    floor = vms.floor.copy()
    for market in range(0 if overfull else len(snapshot.markets)):
        view = market_view(snapshot, market)
        full = view.capacity / np.maximum(view.capacity + excess(view, view.place), 1e-9)
        part = np.where(full < 1.0, 0.999 * full, 1.0)
        floor[view.vms] *= np.append(part, np.ones((1, 2)), axis=0)[view.place]
    return replace(snapshot, vms=replace(snapshot.vms, floor=floor))


def busy(seed: int, overfull: bool) -> tuple[Snapshot, Decision]:
    """Return the first settled cloud from this seed on in which a VM moves, and the decision."""
    for number in range(seed * 100, seed * 100 + 20):
        snapshot = settled(number, overfull)
        decision = tabu(snapshot, TabuSettings(), {}, RNG)
        if decision.plan:
            return snapshot, decision
    raise AssertionError("no VM moves in any of 20 clouds")


@pytest.mark.parametrize("seed", range(shorten(60, 12)))
def test_shortfall_never_increases(seed: int) -> None:
    """A plan with moves lowers the total shortfall and raises no market's."""
    snapshot, decision = busy(seed, overfull=False)
    before = assess_placement(snapshot, snapshot.vms.host).shortfall
    after = assess_placement(snapshot, placed(snapshot, decision)).shortfall
    assert (after <= before * (1 + 1e-9) + 1e-12).all()
    assert after.sum() < before.sum()


@pytest.mark.parametrize("seed", range(shorten(20, 10)))
def test_excess_over_hosts_never_increases(seed: int) -> None:
    """Relief of an overfull host may cost shortfall; a market without overfull hosts loses none."""
    snapshot, decision = busy(seed, overfull=True)
    after = placed(snapshot, decision)
    for market in range(len(snapshot.markets)):
        view = market_view(snapshot, market)
        local = np.append(np.full(len(snapshot.hosts), -1), -1)
        local[view.hosts] = np.arange(len(view.hosts))
        was, now = excess(view, view.place), excess(view, local[after[view.vms]])
        assert (now <= was + 1e-9).all()
        shortfall = [
            assess_placement(snapshot, at).shortfall[market] for at in (snapshot.vms.host, after)
        ]
        assert was.any() or shortfall[1] <= shortfall[0] * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("seed", range(shorten(6, 2)))
def test_moving_2_percent_of_the_vms_removes_a_quarter_of_the_shortfall(seed: int) -> None:
    """This holds on the crowded clouds of benchmarks/bench_balance.py, with loads unpriced."""
    snapshot = flavoured(100, seed)
    decision = tabu(snapshot, TabuSettings(load_price=-1.0), {}, RNG)
    before = assess_placement(snapshot, snapshot.vms.host).shortfall[0]
    after = assess_placement(snapshot, placed(snapshot, decision)).shortfall[0]
    assert len(decision.plan.of(Migrate)) <= 20
    assert after <= 0.75 * before


def test_a_drained_host_is_emptied_within_the_limits() -> None:
    """A period moves as many VMs off the host as the limits allow; unmovable VMs stay."""
    snapshot = crowded(10, 1)
    state = np.full(10, int(HostState.ON))
    state[2] = HostState.DRAINED
    there = np.flatnonzero(snapshot.vms.host == 2)
    movable = np.ones(len(snapshot.vms), dtype=bool)
    movable[there[0]] = False
    drained = replace(
        snapshot,
        hosts=replace(snapshot.hosts, state=state),
        vms=replace(snapshot.vms, movable=movable),
    )
    decision = tabu(drained, TabuSettings(), {}, RNG)
    left = [step for step in decision.plan.of(Migrate) if step.source == 2]
    assert len(left) == min(5, len(there) - 1)
    assert all("host2 is drained" in step.reason for step in left)
    wide = TabuSettings(m_max_part=1.0, migrations_per_host=1000)
    after = placed(drained, tabu(drained, wide, {}, RNG))
    assert np.flatnonzero(after == 2).tolist() == [there[0]]


class TestLimits:
    @pytest.mark.parametrize("seed", range(5))
    def test_migrations_respect_m_max_and_the_limit_per_host(self, seed: int) -> None:
        """Migrations from and to a host count together."""
        snapshot = crowded(20, seed)
        settings = TabuSettings(m_max_part=0.1, migrations_per_host=2)
        moves = tabu(snapshot, settings, {}, RNG).plan.of(Migrate)
        touched = np.bincount([step.host for step in moves] + [step.source for step in moves])
        assert 0 < len(moves) <= 20
        assert touched.max() <= 2

    def test_a_migrated_vm_is_held(self) -> None:
        """A migrated VM stays for the hold time, also after the clock was ahead."""
        snapshot = crowded(20, 0)
        entry = strategy_named("tabu")
        wanted = {step.vm for step in entry.decide(snapshot).plan.of(Migrate)}
        assert wanted
        moved_at_s = np.where(np.isin(snapshot.vms.id, list(wanted)), 100.0, np.nan)
        for now_s, held in ((100.0, True), (699.0, True), (700.0, False), (-9e5, False)):
            vms = replace(snapshot.vms, moved_at_s=moved_at_s)
            later = replace(snapshot, now_s=now_s, vms=vms)
            moved = {step.vm for step in entry.decide(later).plan.of(Migrate)}
            assert moved.isdisjoint(wanted) if held else moved == wanted

    def test_a_migration_with_too_little_gain_is_skipped(self) -> None:
        """The least gain is a multiple of the VMs' average bid."""
        snapshot = crowded(20, 1)
        mean_bid = float(snapshot.vms.bid.sum(axis=1).mean())
        decision = tabu(snapshot, TabuSettings(m_max_part=1.0, least_gain=2.0), {}, RNG)
        assert decision.plan
        assert all(step.gain >= 2.0 * mean_bid for step in decision.plan.of(Migrate))

    def test_the_gain_is_the_shortfall_that_the_migration_removes(self) -> None:
        """The gain is in credits over both hosts; here the target has VMs of its own."""
        cap = np.repeat([[100.0], [100.0], [150.0], [250.0]], 2, axis=1)
        hosts = hosts_table(np.full((2, 2), 300.0))
        snapshot = cloud(hosts, vms_table([0, 0, 0, 1], np.ones((4, 2)), cap))
        decision = tabu(snapshot, TabuSettings(), {}, RNG)
        (step,) = decision.plan.of(Migrate)
        view = market_view(snapshot, 0)
        before = objective_of(view, view.place, Objective.SHORTFALL)
        after = objective_of(view, placed(snapshot, decision), Objective.SHORTFALL)
        assert after > 0
        assert step.gain == pytest.approx(before - after)

    def test_unmovable_vms_stay(self) -> None:
        """If no VM may move, the plan is empty, whatever the shortfall."""
        snapshot = crowded(10, 1)
        columns = {name: getattr(snapshot.vms, name) for name in ("host", "bid", "cap")}
        still = cloud(
            snapshot.hosts, vms_table(**columns, movable=np.zeros(len(snapshot.vms), dtype=bool))
        )
        assert len(tabu(still, TabuSettings(), {}, RNG).plan) == 0

    def test_an_unexecuted_plan_holds_no_vms(self) -> None:
        """Steps that were refused or never sent leave their VMs free in the next period."""
        snapshot = crowded(20, 0)
        entry = strategy_named("tabu")
        first = entry.decide(snapshot)
        assert first.plan.of(Migrate)
        assert entry.decide(snapshot, memory=first.memory).plan == first.plan
