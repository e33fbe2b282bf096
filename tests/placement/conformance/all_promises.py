"""The whole conformance suite as one function, for strategies that are in no registry."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from merkatd.placement import StrategyEntry
from tests.placement.conformance import test_promises as promises
from tests.placement.conformance import test_rules as rules
from tests.placement.conformance.strategy_clouds import EDGES

Check = Callable[[StrategyEntry], Any]
SEEDS = range(8)


def on_seeds(check: Callable[[StrategyEntry, int], Any]) -> Check:
    """Return the check on some clouds."""

    def checked(entry: StrategyEntry) -> None:
        for seed in SEEDS:
            check(entry, seed)

    return checked


def at_edge(edge: str) -> Check:
    """Return the check at an edge."""
    return lambda entry: promises.test_it_decides_at_the_edges(entry, edge)


def keep_all_promises(entry: StrategyEntry) -> None:
    """Raise AssertionError unless the strategy keeps all promises; it must be in the registry."""
    checks = {name: check for name, check in vars(promises).items() if name.startswith("test_")}
    del checks["test_strange_memory_of_its_own_version_is_survived"]  # Hypothesis chooses it.
    promises.check_strange_memory(entry)
    for check in checks.values():
        wanted = set(signature(check).parameters) - {"entry"}
        if wanted == {"seed"}:
            on_seeds(check)(entry)
        elif wanted == {"edge"}:
            for edge in EDGES:
                check(entry, edge)
        else:
            assert not wanted
            check(entry)
    for rule in (
        rules.test_every_step_obeys_the_hard_constraints,
        rules.test_every_pending_vm_is_deployed_or_gets_a_reason,
        rules.test_floors_fit_on_every_host_during_a_plan,
    ):
        for seed in SEEDS:
            rule(entry.name, seed)
    rules.test_members_of_a_group_in_several_markets_stay_together(entry.name, 2)
    rules.test_empty_clouds_are_accepted(entry.name)
