"""Amounts: credits and micro-credits, a tenant's starting credits, and the sums of a statement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.currency.credits import MOST_CREDITS, Month, credits_of, micro
from merkatd.currency.income import SupplyPolicy, supply_change
from merkatd.currency.settings import MoneySettings
from merkatd.currency.statement import Statement, StatementLine


@given(st.integers(-(10**12), 10**12))
def test_micro_credits_survive_conversion_to_credits(amount: int) -> None:
    """Converting micro-credits to credits and back changes no amount."""
    assert micro(credits_of(amount)) == amount
    assert credits_of(2_500_000) == 2.5


def test_starting_credits_depend_on_the_weight_only_without_a_supply() -> None:
    """With a configured supply, the weight counts from the next renewal on."""
    assert MoneySettings(starting_credits=10.0).start_of(3.0) == micro(30.0)
    assert MoneySettings(starting_credits=10.0, supply=1_000.0).start_of(3.0) == micro(10.0)
    assert MoneySettings(starting_credits=MOST_CREDITS).start_of(3.0) == micro(MOST_CREDITS)


def test_without_a_configured_supply_it_is_the_sum_of_starting_credits() -> None:
    """A configured supply replaces the sum of the tenants' starting credits."""
    assert MoneySettings(starting_credits=10.0).supply_for([1.0, 2.0]) == micro(30.0)
    assert MoneySettings(starting_credits=10.0, supply=0.5).supply_for([1.0, 2.0]) == micro(0.5)


@pytest.mark.parametrize("price", [1e-5, 0.01, 1.0, 300.0])
def test_the_supply_follows_prices_of_any_size(price: float) -> None:
    """Also small prices change the supply; a unit of CPU costs about 0.01 credits."""
    policy = SupplyPolicy(enabled=True, days=2, drift_part=0.2, step_part=0.1)
    days = [{("default", "cpu"): price * times} for times in (1, 1, 2, 2)]
    change = supply_change(policy, 1_000, 1_000, days)
    assert change is not None
    assert change.new == 900


def line(**more: int) -> StatementLine:
    """Return the line of a VM that used a core for an hour."""
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


def test_a_statement_counts_each_sold_good_once() -> None:
    """Each sold good counts once, and the unexplained difference is 0."""
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


def test_a_new_resource_counts_once_it_was_sold_as_long_as_the_others() -> None:
    """The first price of a resource is not a change of prices."""
    policy = SupplyPolicy(enabled=True, days=2, drift_part=0.2, step_part=0.1)
    cpu, disk = ("default", "cpu"), ("default", "disk")
    days = [{cpu: 1.0}, {cpu: 1.0, disk: 1.0}, {cpu: 1.0, disk: 9.0}, {cpu: 1.0, disk: 9.0}]
    assert supply_change(policy, 1_000, 1_000, days) is None
