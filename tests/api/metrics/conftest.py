"""A cloud with metrics."""

from collections.abc import Iterator

import pytest

from tests.scheduler.frontend import Frontend


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Return three hosts and two VMs that together demand more than one host has."""
    made = Frontend(hosts=3)
    made.vm(30.0)
    made.vm(10.0)
    yield made
    made.engine.dispose()
