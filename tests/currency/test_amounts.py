"""Amounts: credits and micro-credits, what a tenant starts with, and what a statement adds up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.currency.credits import MOST_CREDITS, Month, credits_of, micro
from merkatd.currency.income import SupplyPolicy, supply_change
from merkatd.currency.settings import MoneySettings
from merkatd.currency.statement import Statement, StatementLine


@given(st.integers(-(10**12), 10**12))
def test_micro_credits_are_the_same_after_a_turn_through_credits(amount: int) -> None:
    """Nothing is lost on a page or in a call."""
    assert micro(credits_of(amount)) == amount
    assert credits_of(2_500_000) == 2.5


def test_a_tenant_starts_by_its_weight_only_where_no_supply_is_set() -> None:
    """With a supply the weight counts at the next renewal."""
    assert MoneySettings(starting_credits=10.0).start_of(3.0) == micro(30.0)
    assert MoneySettings(starting_credits=10.0, supply=1_000.0).start_of(3.0) == micro(10.0)
    assert MoneySettings(starting_credits=MOST_CREDITS).start_of(3.0) == micro(MOST_CREDITS)


def test_without_a_supply_there_is_what_all_tenants_start_with() -> None:
    """With one there is that."""
    assert MoneySettings(starting_credits=10.0).supply_for([1.0, 2.0]) == micro(30.0)
    assert MoneySettings(starting_credits=10.0, supply=0.5).supply_for([1.0, 2.0]) == micro(0.5)


@pytest.mark.parametrize("price", [1e-5, 0.01, 1.0, 300.0])
def test_the_supply_follows_prices_of_every_size(price: float) -> None:
    """A unit of CPU costs about a hundredth of a credit."""
    policy = SupplyPolicy(enabled=True, days=2, drift_part=0.2, step_part=0.1)
    days = [{("default", "cpu"): price * times} for times in (1, 1, 2, 2)]
    change = supply_change(policy, 1_000, 1_000, days)
    assert change is not None
    assert change.new == 900


def line(**more: int) -> StatementLine:
    """A VM that used a core for an hour."""
    return StatementLine(
        vm=1,
        name="web",
        account=2,
        seconds=3_600.0,
        cpu_core_s=3_600.0,
        memory_gib_s=3_600.0,
        cpu_cost=100,
        memory_cost=20,
        **more,
    )


def test_a_statement_counts_each_good_once_and_no_good_that_was_not_sold() -> None:
    """Its difference is what nothing explains: 0."""
    assert line().cost == 120
    assert line(network_cost=3, disk_cost=4).cost == 127
    month = Statement(
        owner=2,
        name="ann",
        group=None,
        month=Month(2026, 11),
        opening=1_000,
        movements={"charge": -247, "grant": 500},
        closing=1_253,
        lines=[line(), line(network_cost=3, disk_cost=4)],
        missing=0,
    )
    assert month.charged == 247
    assert month.difference == 0
    assert month.debt == 0


def test_a_resource_that_is_new_does_not_count_until_it_was_sold_as_long_as_the_others() -> None:
    """Its first price is no change of a price."""
    policy = SupplyPolicy(enabled=True, days=2, drift_part=0.2, step_part=0.1)
    cpu, disk = ("default", "cpu"), ("default", "disk")
    days = [{cpu: 1.0}, {cpu: 1.0, disk: 1.0}, {cpu: 1.0, disk: 9.0}, {cpu: 1.0, disk: 9.0}]
    assert supply_change(policy, 1_000, 1_000, days) is None
