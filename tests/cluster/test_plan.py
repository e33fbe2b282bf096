"""Plans are ordered so that they can be executed; steps keep their identity."""

import pytest

from merkatd.cluster import Create, Deploy, Migrate, Plan
from merkatd.cluster.plan import CyclicPlanError, Step


def migrate(vm: int, *after: str, period: int = 1) -> Migrate:
    """Return a step of which only identity and order matter."""
    return Migrate(period=period, vm=vm, source=1, host=2, reason="", after=after)


def test_a_steps_identity_is_its_period_kind_and_vm() -> None:
    """Other fields of a step do not change its identity."""
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


def test_steps_come_after_the_steps_that_they_wait_for() -> None:
    """All other steps keep the given order."""
    first, second, third = migrate(1), migrate(2), migrate(3)
    waits = migrate(0, third.id, first.id)
    plan = Plan.ordered([waits, first, second, third])
    assert [step.vm for step in plan] == [1, 2, 3, 0]


def test_a_step_does_not_wait_for_steps_outside_of_the_plan() -> None:
    """A plan ignores dependencies that it does not contain."""
    assert len(Plan.ordered([migrate(0, "somebody else's")])) == 1


def test_steps_that_wait_for_each_other_are_an_error() -> None:
    """The error names the VMs of the cycle."""
    first, two = migrate(1), migrate(2)
    ring = [migrate(1, two.id), migrate(2, first.id)]
    with pytest.raises(CyclicPlanError, match="VMs 1, 2"):
        Plan.ordered(list(ring))


def test_a_plan_has_one_step_of_a_kind_for_each_vm() -> None:
    """Two steps with the same identity are an error."""
    with pytest.raises(ValueError, match="at most one"):
        Plan.ordered([migrate(1), migrate(1)])
