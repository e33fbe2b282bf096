"""Hosts in error, VMs that failed, and a second scheduler: what `status` and `explain` say."""

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
    """Two hosts and two VMs that run."""
    made = Daemon()
    for number in range(2):
        made.frontend.vm(NAME=f"web-{number}")
    made.period(3)
    monkeypatch.setattr("merkatd.commands.ask_daemon.ask", made.ask)
    yield made
    made.frontend.close()


def test_a_host_in_error_is_in_the_status_with_opennebula_s_words(
    daemon: Daemon, shell: Shell
) -> None:
    """Nothing is said of it before and after."""
    assert "host in error" not in shell.ok("status").out
    frontend = daemon.frontend
    host = frontend.cloud.world.hosts.rows[0]
    frontend.bench.ok("one.host.update", 0, f'ERROR="{ERROR}"', 1)
    host.state = OneHostState.ERROR
    daemon.period()
    out = " ".join(shell.ok("status").out.split())
    assert f"host in error {host.name}: ERROR: {ERROR}" in out
    host.state = OneHostState.MONITORED
    frontend.bench.ok("one.host.update", 0, 'ERROR=""', 1)
    daemon.period()
    assert "host in error" not in shell.ok("status").out


def test_the_vms_of_a_host_in_error_are_explained_by_it(daemon: Daemon, shell: Shell) -> None:
    """They do belong to a market; OpenNebula knows nothing of them."""
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


def test_a_failed_vm_shows_the_host_that_opennebula_charges(daemon: Daemon, shell: Shell) -> None:
    """It holds room there, and the administrator must know where."""
    frontend = daemon.frontend
    frontend.cloud.faults.add(Fault(FaultKind.FAIL, lcm="BOOT"))
    vm = frontend.vm(NAME="broken")
    daemon.period(4)
    assert frontend.state(vm) == "BOOT_FAILURE"
    name = frontend.cloud.world.hosts.rows[frontend.host_of(vm)].name
    answer = daemon.answer("explain", vm=str(vm))
    assert answer["host"] == name
    assert f"BOOT_FAILURE on {name}" in " ".join(shell.ok(f"explain {vm}").out.split())


def test_a_second_scheduler_is_in_the_status(daemon: Daemon, shell: Shell) -> None:
    """With the likely one named."""
    vm = daemon.frontend.vm(SCHED_REQUIREMENTS="ID = 99")
    daemon.period(2)
    assert "placed by others" not in shell.ok("status").out
    daemon.frontend.bench.ok("one.vm.deploy", vm, 1)
    daemon.period()
    out = " ".join(shell.ok("status").out.split())
    assert f"placed by others VM {vm} was deployed on host 1, not by this daemon: prob" in out
    assert "opennebula-scheduler" in out


def test_a_strategy_that_fails_is_in_the_status(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its market and its error, until it works again."""
    assert "strategy fails" not in shell.ok("status").out
    with monkeypatch.context() as patched:
        patched.setattr(
            "merkatd.placement.registry.StrategyEntry.decide", lambda *_: float("a number")
        )
        daemon.period()
    out = " ".join(shell.ok("status").out.split())
    assert "strategy fails default: nothing is placed or moved: ValueError" in out
    daemon.period()
    assert "strategy fails" not in shell.ok("status").out


def test_a_period_in_quarantine_is_in_the_status(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator reads which period was not charged, and why."""
    assert "in quarantine" not in shell.ok("status").out
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "settle_bill", lambda *_: float("its columns are damaged"))
        daemon.period()
    daemon.period(4)
    out = " ".join(shell.ok("status").out.split())
    assert re.search(r"in quarantine period \d+: .*its columns are damaged", out), out


def test_a_vm_that_fails_to_leave_is_explained_with_opennebula_s_words(
    daemon: Daemon, shell: Shell
) -> None:
    """`explain` says that the VM fails to leave the drained host, and why; then no more of it."""
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
