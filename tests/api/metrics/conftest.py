"""A cloud that has figures."""

from collections.abc import Iterator

import pytest

from tests.scheduler.frontend import Frontend


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Three hosts, and two VMs that want more than one of them has."""
    made = Frontend(hosts=3)
    made.vm(30.0)
    made.vm(10.0)
    yield made
    made.engine.dispose()
