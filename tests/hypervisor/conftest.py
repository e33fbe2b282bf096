"""Embedded hosts with guests, in virtual time and over HTTP."""

import pytest

from tests.opennebula.conftest import real_time, world
from tests.opennebula.worlds import SMALL, World

__all__ = ["guests", "real_time", "world"]


@pytest.fixture
def guests(world: World) -> World:
    """VM 0 with two virtual CPUs on host 0, VM 1 with one on host 1."""
    assert world.running(0, SMALL + "VCPU=2") == 0
    assert world.running(1) == 1
    return world
