"""The sentence about a VM in a limit order, as a newcomer reads it."""

from collections.abc import Iterator

import pytest

from merkatd.currency.settings import MoneySettings
from tests.scheduler.frontend import Frontend
from tests.service.interfaces import Interfaces, contended


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield interfaces with four VMs of four cores on two hosts."""
    yield from contended(Frontend(hosts=2, money=MoneySettings(supply=1e6, starting_credits=1e4)))


def test_it_says_whether_the_vm_runs_and_why_not(asked: Interfaces) -> None:
    """Such a VM has its full size or nothing; the price of the whole order is in the sentence."""
    asked.control("limit_order_set", vms=[0], limit=500.0)
    asked.control("limit_order_set", vms=[2, 3], limit=1.0)
    asked.periods(1)
    runs = asked.control("explain", vm="0")["sentence"]
    assert runs.startswith("VM 0 (vm-0) runs at less than full size until other VMs have left on")
    stops = asked.control("explain", vm="2")
    assert stops["sentence"].startswith(
        "VM 2 (vm-2) is being suspended together with 1 other VM, and costs nothing: limit order 2"
        " waits: "
    )
    assert stops["message"].startswith("limit order 2 waits: ")
    asked.periods(3)
    runs = asked.control("explain", vm="0")["sentence"]
    assert runs.startswith("VM 0 (vm-0) runs at full size on host00")
    assert "(400 % of CPU, 2,048 MiB of memory): limit order 1 costs " in runs
    assert runs.endswith(" credits a period now, and may cost 500.")
    waits = asked.control("explain", vm="3")["sentence"]
    assert waits.startswith("VM 3 (vm-3) waits together with 1 other VM, and costs nothing: ")
    first, second = asked.control("limit_orders")
    assert first["why"] == ""
    assert f"limit order 2 waits: {second['why']}" in waits
