"""Scheduled actions: Merkat runs them on servers up to 6.6, newer servers run their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.contract.endpoint import SMALL
from tests.contract.merkat import Merkat
from tests.contract.ways import OFF, RUNNING

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

SOON_S = 30


def off_soon() -> str:
    """Return a VM that is powered off shortly after its creation."""
    return f'{SMALL}SCHED_ACTION=[ID="0",ACTION="poweroff",TIME="+{SOON_S}"]\n'


def test_periods_run_actions_on_an_old_server(old_endpoint: Endpoint) -> None:
    """They run once, when they are due; a VM started again afterwards keeps running."""
    merkat = Merkat(old_endpoint)
    vm = old_endpoint.new(off_soon())
    assert merkat.puts(vm) != [None]
    merkat.period()
    assert old_endpoint.state(vm) == RUNNING
    old_endpoint.pause(SOON_S)
    merkat.period()
    old_endpoint.reaches(vm, OFF)
    old_endpoint.act(vm, "resume", RUNNING)
    merkat.period()
    old_endpoint.pause(5)
    assert old_endpoint.state(vm) == RUNNING
    assert old_endpoint.xml("one.vm.info", vm).findtext("TEMPLATE/SCHED_ACTION/DONE")
    merkat.close()


def test_a_newer_server_runs_its_own_actions(endpoint: Endpoint, merkat: Merkat) -> None:
    """Periods neither run a due action nor record it."""
    vm = endpoint.new(off_soon().replace(f"+{SOON_S}", "+3000"))
    assert merkat.puts(vm) != [None]
    endpoint.ok("one.vm.update", vm, 'SCHED_ACTION=[ID="7",ACTION="poweroff",TIME="1"]', 1)
    merkat.period()
    endpoint.pause(2)
    assert endpoint.state(vm) == RUNNING
    shown = endpoint.xml("one.vm.info", vm)
    # A server marks its own actions with -1 until they are done.
    assert {row.text for row in shown.iter("DONE")} <= {"-1"}
