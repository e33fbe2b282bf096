"""Embedded hosts with guests, in virtual time and over HTTP."""

from importlib.util import find_spec

import pytest

from tests.opennebula.conftest import real_time, world
from tests.opennebula.worlds import SMALL, World

__all__ = ["guests", "real_time", "world"]


NEED_LIBVIRT = ("test_libvirt_*.py",)
collect_ignore_glob = [] if find_spec("libvirt") else list(NEED_LIBVIRT)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report left-out tests prominently."""
    if collect_ignore_glob:
        terminalreporter.write_line(
            "*** LEFT OUT: tests of limits through libvirt; libvirt-python is not installed ***",
            red=True,
            bold=True,
        )


@pytest.fixture
def guests(world: World) -> World:
    """Return the world with VM 0 (two virtual CPUs) on host 0 and VM 1 (one) on host 1."""
    assert world.running(0, SMALL + "VCPU=2") == 0
    assert world.running(1) == 1
    return world
