"""Hosts in error, failed VMs and a second scheduler, as shown by `status` and `explain`."""

import json
import re
from collections.abc import Iterator

import pytest

from merkatd import ledger
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import Lcm, OneHostState
from tests.commands.asking import Daemon, Shell

ERROR = "Error monitoring Host host000 (0): ssh: connect to host host000: No route to host"


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Yield a daemon with two hosts and two running VMs."""
    made = Daemon()
    for number in range(2):
        made.frontend.vm(NAME=f"web-{number}")
    made.period(3)
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    yield made
    made.frontend.close()


def test_the_status_shows_a_host_in_error_with_opennebulas_text(
    daemon: Daemon, shell: Shell
) -> None:
    """Before and after the error it shows nothing."""
    assert "Host in error" not in shell.ok("status").out
    frontend = daemon.frontend
    host = frontend.cloud.world.hosts.rows[0]
    frontend.bench.ok("one.host.update", 0, f'ERROR="{ERROR}"', 1)
    host.state = OneHostState.ERROR
    daemon.period()
    out = " ".join(shell.ok("status").out.split())
    assert f"Host in error: {host.name}: ERROR: {ERROR}" in out
    host.state = OneHostState.MONITORED
    frontend.bench.ok("one.host.update", 0, 'ERROR=""', 1)
    daemon.period()
    assert "Host in error" not in shell.ok("status").out


def test_vms_of_a_host_in_error_are_explained_by_it(daemon: Daemon, shell: Shell) -> None:
    """They belong to a market, although OpenNebula reports nothing about them."""
    frontend = daemon.frontend
    vm = next(vm for vm in range(2) if frontend.host_of(vm) == 0)
    frontend.bench.ok("one.host.update", 0, f'ERROR="{ERROR}"', 1)
    name = frontend.cloud.world.hosts.rows[0].name
    for state in (Lcm.RUNNING, Lcm.UNKNOWN):
        frontend.cloud.world.hosts.rows[0].state = OneHostState.ERROR
        frontend.bench.vm(vm).lcm = state
        daemon.period()
        out = " ".join(shell.ok(f"explain {vm}").out.split())
        assert "belongs to no market" not in out
        assert f"Host {name} is in state ERROR: {ERROR}" in out


def test_a_failed_vm_shows_the_host_on_which_it_is_allocated(daemon: Daemon, shell: Shell) -> None:
    """It occupies capacity there, and the administrator must know where."""
    frontend = daemon.frontend
    frontend.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT"))
    vm = frontend.vm(NAME="broken")
    daemon.period(4)
    assert frontend.state(vm) == "BOOT_FAILURE"
    name = frontend.cloud.world.hosts.rows[frontend.host_of(vm)].name
    answer = daemon.answer("explain", vm=str(vm))
    assert answer["host"] == name
    assert f"BOOT_FAILURE on {name}" in " ".join(shell.ok(f"explain {vm}").out.split())


def test_the_status_shows_a_second_scheduler(daemon: Daemon, shell: Shell) -> None:
    """It names the likely one."""
    vm = daemon.frontend.vm(SCHED_REQUIREMENTS="ID = 99")
    daemon.period(2)
    assert "Placed by others" not in shell.ok("status").out
    daemon.frontend.bench.ok("one.vm.deploy", vm, 1)
    daemon.period()
    out = " ".join(shell.ok("status").out.split())
    assert f"Placed by others: VM {vm} was deployed on host 1, not by this daemon: prob" in out
    assert "opennebula-scheduler" in out


def test_the_status_shows_a_failing_strategy(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names market and error until the strategy works again."""
    assert "Strategy fails" not in shell.ok("status").out
    with monkeypatch.context() as patched:
        patched.setattr(
            "merkatd.placement.contract.StrategyEntry.decide", lambda *_: float("a number")
        )
        daemon.period()
    out = " ".join(shell.ok("status").out.split())
    assert "Strategy fails: default: nothing is placed or moved: ValueError" in out
    daemon.period()
    assert "Strategy fails" not in shell.ok("status").out


def test_the_status_shows_a_period_in_quarantine(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says which period was not charged, and why."""
    assert "In quarantine" not in shell.ok("status").out
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "settle_bill", lambda *_: float("its columns are damaged"))
        daemon.period()
    daemon.period(4)
    out = " ".join(shell.ok("status").out.split())
    assert re.search(r"In quarantine: period \d+: .*its columns are damaged", out), out


def test_a_vm_that_fails_to_leave_is_explained_with_opennebulas_text(
    daemon: Daemon, shell: Shell
) -> None:
    """`explain` shows the failure until the VM has left the drained host."""
    frontend = daemon.frontend
    vm = next(vm for vm in range(2) if frontend.host_of(vm) == 0)
    words = "Cannot migrate: the CPU model differs"
    frontend.cloud.faults.add(
        Fault(FaultKind.REFUSE, "one.vm.migrate", vm=vm, code=2048, text=words)
    )
    assert "fails to leave" not in shell.ok(f"explain {vm}").out
    frontend.order(Order.DRAIN, 0)
    daemon.period(3)
    name = frontend.cloud.world.hosts.rows[0].name
    out = " ".join(shell.ok(f"explain {vm}").out.split())
    assert f"fails to leave {name}: migration failed" in out
    assert words in out
    assert words in daemon.answer("explain", vm=str(vm))["message"]
    frontend.cloud.faults.clear()
    daemon.period(8)
    assert frontend.host_of(vm) == 1
    assert "fails to leave" not in shell.ok(f"explain {vm}").out


def test_the_status_has_wrong_attributes_of_hosts(daemon: Daemon, shell: Shell) -> None:
    """They are there by the names of the hosts, until an administrator corrects them."""
    daemon.frontend.bench.ok("one.host.update", 1, 'MERKAT_LINK="fast"', 1)
    daemon.period()
    (wrong,) = json.loads(shell.ok("status --json").out)["host_attributes"].items()
    assert wrong[0] == "host001"
    assert wrong[1].startswith("MERKAT_LINK must be a number above 0")
    assert "Host attribute: host001: MERKAT_LINK must be" in " ".join(
        shell.ok("status").out.split()
    )
    daemon.frontend.bench.ok("one.host.update", 1, 'MERKAT_LINK="1000"', 1)
    daemon.period()
    assert json.loads(shell.ok("status --json").out)["host_attributes"] == {}
