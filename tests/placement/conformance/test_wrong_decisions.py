"""Each rule and each promise of the suite finds a decision or a strategy that breaks it."""

from typing import Any, cast

import pytest

from merkatd.cluster.snapshot import checked_snapshot, view_of_market
from merkatd.placement import STRATEGIES, StrategyEntry, strategy_named
from merkatd.placement.contract import Need
from merkatd.placement.made_up_needs import with_needs
from merkatd.placement.snapshot_needs import unfilled
from tests.clouds import tangled
from tests.placement.conformance import test_promises as promises
from tests.placement.conformance import wrong_decisions as wrong
from tests.placement.conformance import wrong_strategies
from tests.placement.conformance.all_promises import (
    SEEDS,
    Check,
    at_edge,
    keep_all_promises,
    on_seeds,
)
from tests.placement.conformance.filled_clouds import filled_cloud
from tests.placement.conformance.step_rules import RULES, broken_rules
from tests.placement.conformance.strategy_clouds import EDGES, bits
from tests.placement.needy_strategy import needy

CASES = [(rule, at) for rule, made in wrong.WRONG_DECISIONS.items() for at in range(len(made))]


def test_every_rule_is_broken_once() -> None:
    """No rule is without a decision that breaks it."""
    assert set(wrong.WRONG_DECISIONS) == set(RULES)


@pytest.mark.parametrize(("rule", "at"), CASES)
def test_a_rule_finds_what_breaks_it(rule: str, at: int) -> None:
    """It alone, but for the named further ones."""
    broken = broken_rules(wrong.all_kinds(), wrong.WRONG_DECISIONS[rule][at]())
    assert rule in broken
    assert broken.keys() <= {rule} | wrong.ALSO.get(rule, frozenset())


@pytest.mark.parametrize("right", wrong.RIGHT_DECISIONS)
def test_right_steps_of_each_kind_break_no_rule(right: str) -> None:
    """Also kinds that no present strategy makes."""
    assert broken_rules(wrong.all_kinds(), wrong.RIGHT_DECISIONS[right]()) == {}


PROMISES: list[tuple[str, Check]] = [
    ("strange_defaults", promises.test_it_declares_itself),
    ("counting", on_seeds(promises.test_the_same_input_gives_the_same_bits)),
    ("clocked", on_seeds(promises.test_the_same_input_gives_the_same_bits)),
    ("writing", on_seeds(promises.test_the_same_input_gives_the_same_bits)),
    ("unstorable", on_seeds(promises.test_it_decides_the_same_from_a_file)),
    ("eager", on_seeds(promises.test_a_vm_that_may_not_be_placed_counts_for_nothing)),
    ("eager", on_seeds(promises.test_every_decision_obeys_the_rules)),
    ("generous", on_seeds(promises.test_every_decision_obeys_the_rules)),
    ("generous", on_seeds(promises.test_allocations_fit_on_their_hosts)),
    ("generous", at_edge("one_down")),
    ("silent", on_seeds(promises.test_every_decision_obeys_the_rules)),
    ("silent", at_edge("all_pending")),
    ("restless", on_seeds(promises.test_every_decision_obeys_the_rules)),
    ("restless", on_seeds(promises.test_it_keeps_its_limit_on_migrations)),
    ("restless", on_seeds(promises.test_it_holds_vms_that_have_just_moved)),
    (
        "restless_under_own_names",
        on_seeds(promises.test_it_keeps_its_limit_on_migrations),
    ),
    (
        "restless_under_own_names",
        on_seeds(promises.test_it_holds_vms_that_have_just_moved),
    ),
    ("unknown_limits", promises.test_it_declares_itself),
    ("nostalgic", promises.check_strange_memory),
    ("free_with_prices", promises.test_a_strategy_that_charges_nothing_has_no_price),
    ("own_for_a_share", promises.test_a_strategy_that_charges_nothing_has_no_price),
    ("blind", at_edge("unknown_columns")),
    ("needing_hosts", at_edge("without_hosts")),
    ("any_version", promises.test_its_own_memory_is_its_own),
]


@pytest.mark.parametrize(("strategy", "check"), PROMISES, ids=[name for name, _ in PROMISES])
def test_a_promise_finds_who_breaks_it(strategy: str, check: Check) -> None:
    """And the strategies of the registry keep it."""
    with pytest.raises((AssertionError, IndexError)):
        check(getattr(wrong_strategies, strategy)())
    check(strategy_named("tabu"))


def test_a_strategy_that_reads_what_it_needs_keeps_all_promises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every cloud of the suite has what the strategy needs."""
    entry = needy()
    monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), entry.name, entry)
    keep_all_promises(entry)


@pytest.mark.parametrize("need", Need)
def test_a_cloud_gets_what_a_strategy_needs_and_keeps_what_it_has(need: Need) -> None:
    """The rest of the cloud does not change; without hosts or VMs nothing fails."""
    for snapshot in (*(tangled(seed) for seed in SEEDS), *(make() for make in EDGES.values())):
        filled = with_needs(snapshot, {need})
        for row in range(len(snapshot.markets)):
            assert not unfilled(view_of_market(filled, row), {need})
        if need in {Need.JOBS, Need.SERVICES, Need.REPLICATED}:
            assert len(getattr(filled, need.value)) == 1
        assert checked_snapshot(filled) is filled
        assert bits(with_needs(filled, {need})) == bits(filled)
    for seed in SEEDS:
        whole = filled_cloud(seed)
        for row in range(len(whole.markets)):
            assert not unfilled(view_of_market(with_needs(whole, {need}), row), {need})
        if not unfilled(whole, {need}) and len(whole.hosts) > 3:
            known = with_needs(whole, {need})
            assert bits(known.jobs) == bits(whole.jobs)
            assert bits(known.vms) == bits(whole.vms)


def test_every_wrong_strategy_is_used() -> None:
    """None is left without the promise that it breaks."""
    made = {
        name
        for name, value in vars(wrong_strategies).items()
        if callable(value) and getattr(value, "__annotations__", {}).get("return") is StrategyEntry
    }
    assert made - {"_entry", "strategy_named"} == {name for name, _ in PROMISES}
