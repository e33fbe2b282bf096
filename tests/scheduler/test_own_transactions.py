"""Periods use transactions of their own, which tenants' reads never hold up."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from twisted.internet.defer import Deferred

from tests.scheduler.frontend import Frontend


class Full:
    """A database whose threads are all taken."""

    async def run(self, _work: Callable[[sa.Connection], Any]) -> Any:
        """Never returns."""
        never: Deferred[Any] = Deferred()
        return await never

    read = run


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """A host."""
    made = Frontend(hosts=1)
    yield made
    made.close()


def test_a_period_ends_while_the_database_answers_nobody_else(frontend: Frontend) -> None:
    """A whole period, from its orders to its charges, waits for no thread that tenants use."""
    frontend.vm()
    world = frontend.scheduler.world
    frontend.scheduler.world = replace(world, database=Full(), first=world.database)
    numbers = [frontend.period().period for _ in range(3)]
    assert numbers == sorted(set(numbers))
    assert frontend.scheduler.world.first is world.database
