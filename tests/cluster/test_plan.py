"""Plans are values in an order that can be carried out; steps keep their identity."""

import pytest

from merkatd.cluster import Create, Deploy, Migrate, Plan
from merkatd.cluster.plan import CyclicPlanError, Step


def migrate(vm: int, *after: str, period: int = 1) -> Migrate:
    """A step of which only identity and order matter."""
    return Migrate(period=period, vm=vm, source=1, host=2, reason="", after=after)


def test_a_steps_identity_is_its_period_kind_and_vm() -> None:
    """Whoever computes it, and whatever else it says."""
    assert migrate(1).id == Migrate(period=1, vm=1, source=5, host=6, reason="x").id
    different: list[Step] = [
        migrate(1),
        migrate(2),
        migrate(1, period=2),
        Deploy(period=1, vm=1, host=2, reason=""),
        Create(period=1, key="a", template="", owner=0, reason=""),
        Create(period=1, key="b", template="", owner=0, reason=""),
    ]
    assert len({step.id for step in different}) == len(different)


def test_steps_stand_behind_what_they_come_after() -> None:
    """Otherwise in the order given."""
    first, second, third = migrate(1), migrate(2), migrate(3)
    waits = migrate(0, third.id, first.id)
    plan = Plan.ordered([waits, first, second, third])
    assert [step.vm for step in plan] == [1, 2, 3, 0]


def test_a_step_that_comes_after_anothers_business_is_not_held_up() -> None:
    """What is not in the plan is not this plan's to wait for."""
    assert len(Plan.ordered([migrate(0, "somebody else's")])) == 1


def test_steps_that_wait_for_each_other_are_refused() -> None:
    """They could never start."""
    one, two = migrate(1), migrate(2)
    ring = [migrate(1, two.id), migrate(2, one.id)]
    with pytest.raises(CyclicPlanError, match="VMs 1, 2"):
        Plan.ordered(list(ring))


def test_one_step_of_a_kind_for_a_vm() -> None:
    """Twice the same identity can't be told apart."""
    with pytest.raises(ValueError, match="at most one"):
        Plan.ordered([migrate(1), migrate(1)])
