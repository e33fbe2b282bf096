"""The promises of every strategy in the registry, whatever it optimises.

A new strategy passes this suite as soon as it stands in the registry; see `docs/strategies.md`.
"""

import json
import os
import time
from dataclasses import fields, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Decision, Migrate, OfHost, Snapshot, VmState
from merkatd.cluster.snapshot import view_of_market
from merkatd.market.explanation import hosts_after
from merkatd.market.market_view import market_view
from merkatd.placement import STRATEGIES, StrategyEntry
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.changes.plan_changes import moved_first
from merkatd.placement.contract import PARAMETER, Allocation, Charge
from merkatd.placement.decision_check import checked_decision
from merkatd.placement.made_up_needs import with_needs
from merkatd.placement.markets_in_turn import (
    DecisionBasis,
    MarketBasis,
    basis_from_json,
    decide_again,
)
from merkatd.placement.settings_json import (
    memory_from_json,
    memory_to_json,
    settings_from_json,
    settings_to_json,
)
from tests.clouds import crowded, tangled
from tests.lengths import shorten
from tests.machine_speed import slowness
from tests.placement.conformance.filled_clouds import filled_cloud
from tests.placement.conformance.step_rules import broken_rules
from tests.placement.conformance.strategy_clouds import (
    EDGES,
    bits,
    optional_columns,
    without_column,
)

ENTRIES = pytest.mark.parametrize("entry", STRATEGIES.values(), ids=list(STRATEGIES))
SEEDS = range(shorten(40, 12))


def cloud_for(entry: StrategyEntry, snapshot: Snapshot) -> Snapshot:
    """Return the cloud with all that the strategy needs."""
    return with_needs(snapshot, entry.needs)


def decide(
    entry: StrategyEntry, snapshot: Snapshot, memory: object = None, chosen: object = None
) -> Decision:
    """Return the decision of market 0 with these settings and its period's random numbers."""
    random = repeatable_random(7, snapshot.period, "default")
    kept = memory if isinstance(memory, dict) else {}
    settings = entry.defaults if chosen is None else chosen
    return entry.decide(view_of_market(snapshot, 0), settings, kept, random)


def settings_of_limits(entry: StrategyEntry) -> list[Any]:
    """Return the default settings, and others of those that limit migrations.

    In the first of the others all are at their least values, and in the last all allow some.
    """
    described = {each.name: each.metadata.get(PARAMETER) for each in fields(entry.settings)}
    found = [entry.defaults]
    for part in (0.0, 1.0, 3.0):
        changes = {}
        for name in entry.moves.settings:
            own, kind = described[name], type(getattr(entry.defaults, name))
            if own is not None:
                changes[name] = kind(min(own.least + part, own.most))
        found.append(replace(entry.defaults, **changes))
    return found


@ENTRIES
def test_it_declares_itself(entry: StrategyEntry) -> None:
    """Each setting is a number with a range around its default, a choice, a flag or the prices."""
    assert entry.summary
    assert entry.summary[-1] != "."
    assert entry.version >= 1
    for each in fields(entry.settings):
        described, default = each.metadata.get(PARAMETER), getattr(entry.defaults, each.name)
        if described is None:
            assert each.name == "pricing" or isinstance(default, StrEnum | bool), each.name
        else:
            assert described.least <= default <= described.most, each.name
    limits = entry.moves
    assert limits.settings <= {each.name for each in fields(entry.settings)}
    if limits.most is not None:
        assert all(limits.most(entry.defaults, vms) >= 0 for vms in (0, 1, 10_000))
    if limits.hold_s is not None:
        assert limits.hold_s(entry.defaults) >= 0


@ENTRIES
@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_input_gives_the_same_bits(entry: StrategyEntry, seed: int) -> None:
    """Neither the input nor the memory changes."""
    snapshot = cloud_for(entry, tangled(seed))
    first = decide(entry, snapshot)
    before, memory = bits(snapshot), dict(first.memory)
    remembered = bits(memory)
    second = decide(entry, snapshot, memory)
    again = decide(entry, snapshot, memory)
    assert bits(second) == bits(again)
    assert bits(first) == bits(decide(entry, snapshot))
    assert bits(snapshot) == before
    assert bits(memory) == remembered


@ENTRIES
@pytest.mark.parametrize("seed", SEEDS)
def test_it_decides_the_same_from_a_file(entry: StrategyEntry, seed: int) -> None:
    """Settings and memory survive JSON to the bit."""
    snapshot = cloud_for(entry, tangled(seed))
    memory = dict(decide(entry, snapshot).memory)
    stored = json.loads(json.dumps(memory_to_json(memory), allow_nan=False))
    assert bits(memory_from_json(stored, "memory")) == bits(memory)
    chosen = json.loads(json.dumps(settings_to_json(entry.defaults)))
    assert settings_from_json(entry.settings, chosen, "settings") == entry.defaults
    later = replace(snapshot, period=snapshot.period + 1)
    known = memory_from_json(stored, "memory")
    assert bits(decide(entry, later, known)) == bits(decide(entry, later, memory))


@ENTRIES
@pytest.mark.parametrize("seed", SEEDS)
def test_a_vm_that_may_not_be_placed_counts_for_nothing(entry: StrategyEntry, seed: int) -> None:
    """It gets no host, and all others get what they would get without it."""
    snapshot = cloud_for(entry, tangled(seed))
    vms = snapshot.vms
    rng = np.random.default_rng(seed)
    kept = (vms.state == int(VmState.PENDING)) & (rng.random(len(vms)) < 0.5)
    stays = replace(snapshot, vms=replace(vms, placeable=~kept))
    gone = replace(snapshot, vms=replace(vms, state=np.where(kept, int(VmState.ABSENT), vms.state)))
    first, second = decide(entry, stays), decide(entry, gone)
    assert bits(first) == bits(second)
    assert not {step.vm for step in first.plan} & set(vms.id[kept].tolist())


@ENTRIES
@pytest.mark.parametrize("edge", EDGES)
def test_it_decides_at_the_edges(entry: StrategyEntry, edge: str) -> None:
    """Every decision has finite allocations within caps, and a reason in words for each step."""
    snapshot = cloud_for(entry, EDGES[edge]())
    decision = decide(entry, snapshot)
    assert broken_rules(snapshot, decision) == {}
    assert decision.allocations.shape == snapshot.vms.bid.shape
    assert np.isfinite(decision.allocations).all()
    assert (decision.allocations >= 0).all()
    assert (decision.allocations <= snapshot.vms.cap * (1 + 1e-9)).all()
    assert decision.prices.shape == (len(snapshot.markets), len(snapshot.resources))
    assert not np.isnan(decision.prices).any()
    assert (decision.prices >= 0).all()
    for step in decision.plan:
        assert len(step.reason.split()) >= 3, step
    if edge == "all_drained":
        assert not decision.plan.steps


@ENTRIES
@pytest.mark.parametrize("seed", SEEDS)
def test_every_decision_obeys_the_rules(entry: StrategyEntry, seed: int) -> None:
    """In clouds with all tables, and again with the memory of its last decision."""
    snapshot = cloud_for(entry, filled_cloud(seed))
    seen = view_of_market(snapshot, 0)
    before = bits(snapshot)
    first = decide(entry, snapshot)
    later = replace(snapshot, period=snapshot.period + 1, now_s=snapshot.now_s + 60.0)
    second = decide(entry, later, dict(first.memory))
    for view, decision in ((seen, first), (view_of_market(later, 0), second)):
        assert broken_rules(view, decision) == {}
        assert checked_decision(view, 0, decision) is decision
    assert bits(snapshot) == before


@ENTRIES
@pytest.mark.parametrize("seed", SEEDS)
def test_unknown_optional_numbers_break_no_rule(entry: StrategyEntry, seed: int) -> None:
    """Each optional column alone may be unknown for all."""
    snapshot = cloud_for(entry, filled_cloud(seed))
    name, column = optional_columns(snapshot)[seed % len(optional_columns(snapshot))]
    snapshot = without_column(snapshot, name, column)
    assert broken_rules(view_of_market(snapshot, 0), decide(entry, snapshot)) == {}


@ENTRIES
@pytest.mark.parametrize("seed", SEEDS)
def test_it_holds_vms_that_have_just_moved(entry: StrategyEntry, seed: int) -> None:
    """For the time that it declares, under any of the settings on which this time depends."""
    if entry.moves.hold_s is None:
        return
    snapshot = cloud_for(entry, crowded(8, seed, 6))
    for chosen in settings_of_limits(entry):
        hold_s = entry.moves.hold_s(chosen)
        for part in (0.0, 0.99) if hold_s > 0 else ():
            at_s = np.full(len(snapshot.vms), snapshot.now_s - part * hold_s)
            held = replace(snapshot, vms=replace(snapshot.vms, moved_at_s=at_s))
            assert not decide(entry, held, chosen=chosen).plan.of(Migrate)


@ENTRIES
@pytest.mark.parametrize("seed", SEEDS)
def test_allocations_fit_on_their_hosts(entry: StrategyEntry, seed: int) -> None:
    """What VMs of the market get never exceeds a host after the plan, but for floors there now."""
    snapshot = view_of_market(cloud_for(entry, tangled(seed)), 0)
    decision = decide(entry, snapshot)
    host = hosts_after(snapshot, decision.plan)
    mine = (host >= 0) & (snapshot.vms.market == 0)
    given = np.zeros_like(snapshot.hosts.capacity)
    floors = np.zeros_like(given)
    np.add.at(given, host[mine], decision.allocations[mine])
    np.add.at(floors, host[mine], snapshot.vms.floor[mine])
    most = np.maximum(snapshot.hosts.capacity, floors)
    assert (given <= most * (1 + 1e-9) + 1e-9).all()


@ENTRIES
@pytest.mark.parametrize("seed", SEEDS)
def test_it_keeps_its_limit_on_migrations(entry: StrategyEntry, seed: int) -> None:
    """The one that it declares, under any of the settings on which the limit depends.

    A resumption on another host is a migration, too.
    """
    if entry.moves.most is None:
        return
    for snapshot in (crowded(8, seed, 6), filled_cloud(seed)):
        seen = view_of_market(cloud_for(entry, snapshot), 0)
        vms = len(market_view(seen, 0).vms)
        for chosen in settings_of_limits(entry):
            plan = moved_first(seen, decide(entry, seen, chosen=chosen).plan)
            assert len(plan.of(Migrate)) <= entry.moves.most(chosen, vms)


@ENTRIES
@settings(max_examples=shorten(30, 10), deadline=None)
@given(data=st.data())
def test_strange_memory_of_its_own_version_is_survived(
    entry: StrategyEntry, data: st.DataObject
) -> None:
    """A memory of VMs and hosts that are gone, or of before an upgrade, gives no worse plan."""
    check_strange_memory(entry, data.draw(st.integers(0, 50)), data.draw(st.integers(51, 100)))


def check_strange_memory(entry: StrategyEntry, before: int = 3, after: int = 60) -> None:
    """Decide a cloud with the memory of another one."""
    other = decide(entry, cloud_for(entry, tangled(before))).memory
    snapshot = cloud_for(entry, tangled(after))
    decision = decide(entry, snapshot, dict(other))
    known = set(snapshot.vms.id.tolist())
    assert {step.vm for step in decision.plan if not isinstance(step, OfHost)} <= known
    assert broken_rules(view_of_market(snapshot, 0), decision) == {}


@ENTRIES
def test_memory_of_another_version_is_ignored(entry: StrategyEntry) -> None:
    """A file with it gives the decision without a memory; so does the daemon's table."""
    if entry.name not in STRATEGIES:
        return
    snapshot = cloud_for(entry, filled_cloud(5))
    basis = DecisionBasis(
        3,
        tuple(
            MarketBasis(name, entry.name, entry.defaults, {"strange": [1], "a": np.zeros(3)})
            for name in snapshot.markets.name
        ),
    )
    text = basis.to_json()
    for row in text["markets"]:
        row["version"] = entry.version + 1
    read = basis_from_json(json.loads(json.dumps(text)), snapshot)
    assert [dict(market.memory) for market in read.markets] == [{}, {}]
    empty = replace(basis, markets=tuple(replace(market, memory={}) for market in basis.markets))
    assert bits(decide_again(snapshot, read)) == bits(decide_again(snapshot, empty))


@ENTRIES
def test_its_own_memory_is_its_own(entry: StrategyEntry) -> None:
    """It decides on with what it remembers, for some periods, and breaks no rule."""
    snapshot, memory = cloud_for(entry, filled_cloud(7)), dict[str, object]()
    for number in range(4):
        now = replace(snapshot, period=snapshot.period + number)
        decision = decide(entry, now, memory)
        assert broken_rules(view_of_market(now, 0), decision) == {}
        memory = dict(decision.memory)


@ENTRIES
def test_a_strategy_that_charges_nothing_has_no_price(entry: StrategyEntry) -> None:
    """And limit orders need shares with a price."""
    if entry.charges is Charge.NONE:
        assert not decide(entry, cloud_for(entry, crowded(4, 1))).prices.any()
    if entry.allocates is Allocation.OWN:
        assert entry.charges is not Charge.SHARES


@ENTRIES
def test_a_decision_takes_no_longer_than_a_period(entry: StrategyEntry) -> None:
    """Hosts 100, VMs 1,000: less than 5 seconds of CPU; 20 times that without compiled code."""
    snapshot = cloud_for(entry, crowded(100, 3))
    decide(entry, cloud_for(entry, crowded(4, 3)))
    begin = time.process_time()
    decide(entry, snapshot)
    took_s = time.process_time() - begin
    assert took_s < 5.0 * slowness() * (20.0 if "NUMBA_DISABLE_JIT" in os.environ else 1.0)
