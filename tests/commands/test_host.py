"""Draining a host: its VMs leave, no VM arrives, and a restarted daemon continues."""

import pytest

from merkatd.database.scheduler import order_store, period_store
from tests.commands.asking import Daemon, Shell
from tests.served import questions_at


def hosts_of(daemon: Daemon) -> set[int]:
    """Return the ids of hosts with running VMs."""
    frontend = daemon.frontend
    vms = [vm for vm in range(6) if frontend.state(vm) == "RUNNING"]
    return {frontend.host_of(vm) for vm in vms}


def test_a_drained_host_is_emptied_and_shown_as_drained(daemon: Daemon, shell: Shell) -> None:
    """A period respects its limits on migrations; name and id both work."""
    assert hosts_of(daemon) == {0, 1}
    output = shell.ok("host drain host001").out
    assert output.startswith("host001 is drained: ")
    assert "VMs will be moved away" in output
    daemon.period(4)
    assert hosts_of(daemon) == {0}
    rows = shell.ok("list hosts --csv -l ID,STAT,NOTE").lines
    assert "1,drain,drained and empty" in rows
    assert shell.ok("host drain 1").out == "host001 is already drained: it has no VMs.\n"


def test_the_order_outlives_the_daemon_until_it_is_revoked(daemon: Daemon, shell: Shell) -> None:
    """The database stores it with its author."""
    shell.ok("host drain 1")
    daemon.frontend.start_daemon()
    frontend = daemon.frontend
    for _ in range(4):
        frontend.period()
        frontend.clock.advance(60)
    assert hosts_of(daemon) == {0}
    given = frontend.read(order_store.history)
    assert [(order.what, order.host) for order in given] == [("drain", 1)]
    assert given[0].who
    assert shell.ok("host undrain 1").out == "host001 takes VMs again from the next period on.\n"
    assert shell.ok("host undrain 1").out == "host001 was not drained: nothing to undo.\n"
    new = [frontend.vm(9.0) for _ in range(2)]
    daemon.period(12)
    frontend.start_daemon()
    frontend.periods(4)
    assert frontend.scheduler.drained == frozenset()
    assert {frontend.state(vm) for vm in new} == {"RUNNING"}
    assert hosts_of(daemon) == {0, 1}


def test_an_unknown_host_is_an_error(daemon: Daemon, shell: Shell) -> None:
    """The error is one line."""
    del daemon
    assert "no host has the id or name 'nope'" in shell.refused("host drain nope")
    assert "expected one of" in shell.refused("host empty 1", 2)


def test_a_pause_outlives_the_daemon(daemon: Daemon, shell: Shell) -> None:
    """Periods continue after a resume, not after a restart."""
    shell.ok("pause")
    assert shell.ok("pause").out.startswith("Already paused")
    frontend = daemon.frontend
    frontend.start_daemon()
    frontend.scheduler.start()
    before = frontend.read(lambda c: len(order_store.history(c)))
    frontend.clock.pump([10.0] * 30)
    assert frontend.scheduler.paused
    numbers = [frontend.read(period_store.newest).number]
    shell.ok("resume")
    frontend.clock.pump([10.0] * 13)
    numbers.append(frontend.read(period_store.newest).number)
    assert numbers[1] == numbers[0] + 2
    assert frontend.read(lambda c: len(order_store.history(c))) == before + 1
    frontend.result(frontend.stopped())


def test_starting_paused_applies_to_that_daemon_only(daemon: Daemon, shell: Shell) -> None:
    """No order is stored, because another daemon may use the same database."""
    frontend = daemon.frontend
    frontend.start_daemon()
    frontend.scheduler.hold()
    frontend.scheduler.start()
    daemon.questions = questions_at(frontend.scheduler)
    before = frontend.read(period_store.newest)
    frontend.clock.pump([10.0] * 30)
    assert frontend.read(period_store.newest) == before
    assert "It is paused: no period starts" in shell.ok("status").out
    assert not frontend.read(order_store.in_force).paused
    shell.ok("resume")
    frontend.clock.pump([10.0] * 13)
    assert frontend.read(period_store.newest) != before
    frontend.result(frontend.stopped())


def test_a_host_can_be_drained_before_the_first_period(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused or standby daemon applies the order from its first period on."""
    daemon = Daemon()
    monkeypatch.setattr("merkatd.commands.socket_door.ask", daemon.ask)
    vm = daemon.frontend.vm()
    assert shell.ok("host drain host000").out == "host000 is drained: it has no VMs.\n"
    daemon.period(2)
    assert daemon.frontend.host_of(vm) == 1
    daemon.frontend.close()


def test_a_host_can_be_drained_while_the_cloud_is_unreachable(daemon: Daemon, shell: Shell) -> None:
    """The latest period's hosts are used; before the first period it is an error."""
    daemon.frontend.bench.ok("embedded.fault.add", {"kind": "lose", "method": "one.*"})
    assert shell.ok("host drain host001").out.startswith("host001 is drained: ")
    daemon.frontend.start_daemon()
    daemon.questions = questions_at(daemon.frontend.scheduler)
    assert "the cloud can't be reached" in shell.refused("host undrain host001")
