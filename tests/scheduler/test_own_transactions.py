"""Periods use separate transactions, which tenants' reads never delay."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from twisted.internet.defer import Deferred

from tests.scheduler.frontend import Frontend


class Full:
    """A database whose threads are all in use."""

    async def run(self, _work: Callable[[sa.Connection], Any]) -> Any:
        """Wait forever."""
        never: Deferred[Any] = Deferred()
        return await never

    read = run


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Return a frontend with one host."""
    made = Frontend(hosts=1)
    yield made
    made.close()


def test_a_period_ends_while_the_tenants_database_threads_are_busy(frontend: Frontend) -> None:
    """From its orders to its charges a period waits for no thread that tenants use."""
    frontend.vm()
    world = frontend.scheduler.world
    frontend.scheduler.world = replace(world, database=Full(), first=world.database)
    numbers = [frontend.period().period for _ in range(3)]
    assert numbers == sorted(set(numbers))
    assert frontend.scheduler.world.first is world.database
