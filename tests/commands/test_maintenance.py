"""`merkatd host maintenance`: it empties a host, tells owners, waits, and says when it is empty."""

from collections.abc import Callable

import pytest

from merkatd.commands.decisions import host_command
from tests.commands.asking import Daemon, Shell


def message(daemon: Daemon, vm: int) -> str:
    """Return the message that the VM's owner sees."""
    return str(daemon.frontend.bench.vm(vm).user_template.get("SCHED_MESSAGE", ""))


def running_on(daemon: Daemon, host: int) -> list[int]:
    """Return the running VMs on the host in the cloud."""
    frontend = daemon.frontend
    vms = [vm for vm in range(6) if frontend.state(vm) == "RUNNING"]
    return [vm for vm in vms if frontend.host_of(vm) == host]


def periods_pass(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, then: Callable[[int], None] = lambda _: None
) -> list[int]:
    """Let each wait of the command be a period, and call `then` with the number of waits.

    Return a list with an entry for each wait.
    """
    waits: list[int] = []

    def pass_one(_seconds: float) -> None:
        waits.append(1)
        assert len(waits) <= 30, "the host is still not empty"
        daemon.period()
        then(len(waits))

    monkeypatch.setattr(host_command, "sleep", pass_one)
    return waits


def test_it_ends_when_the_host_is_empty(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the cloud, not only in the plan; it prints the VMs that are left, with their owners."""
    there = running_on(daemon, 1)
    assert there
    periods_pass(daemon, monkeypatch)
    lines = shell.ok("host maintenance host001").lines
    assert running_on(daemon, 1) == []
    assert lines[0].startswith("host001 is drained: ")
    assert any(f"{there[0]} (web-{there[0]} of oneadmin)" in line for line in lines[1:-1])
    assert lines[-1].startswith("host001 is empty at ")
    assert lines[-1].endswith("It takes no VMs until `merkatd host undrain host001`.")
    assert daemon.answer("status")["drained_hosts"] == [1]
    assert shell.ok("host maintenance host001").lines[0] == (
        "host001 is already drained: it has no VMs."
    )


def test_owners_are_told_while_their_vms_are_there(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is gone once the VM is on its new host."""
    there = running_on(daemon, 1)
    seen: list[str] = []
    waits = periods_pass(
        daemon, monkeypatch, lambda _: seen.extend(message(daemon, vm) for vm in there)
    )
    shell.ok("host maintenance host001")
    assert waits
    told = "An administrator empties host host001: the VM is migrated to another host"
    assert any(text.startswith(told) for text in seen)
    daemon.period(2)
    assert not any("empties host" in message(daemon, vm) for vm in there)


def test_a_vm_that_cannot_be_moved_is_named_until_its_owner_stops_it(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command waits for it; it counts as one that can't be migrated."""
    frontend = daemon.frontend
    fixed = frontend.vm(5.0, NAME="fixed", MERKAT_PINNED="YES")
    daemon.period(2)
    host = frontend.host_of(fixed)

    def stop_at_last(count: int) -> None:
        if count == 12:
            assert "can't be migrated while it runs" in message(daemon, fixed)
            frontend.bench.ok("one.vm.action", "terminate-hard", fixed)

    waits = periods_pass(daemon, monkeypatch, stop_at_last)
    lines = shell.ok(f"host maintenance {host}").lines
    assert f"1 VM left: {fixed} (fixed of oneadmin); 1 of them can't be migrated" in lines[-2]
    assert lines[-1].startswith(f"host00{host} is empty at ")
    assert len(waits) >= 12


def test_an_interrupted_wait_leaves_the_host_drained(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how to end that."""

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host_command, "sleep", interrupt)
    result = shell("host", "maintenance", "host001")
    assert result.code == 130
    assert "host001 stays drained: `merkatd host undrain host001` ends that" in result.err
    assert daemon.answer("status")["drained_hosts"] == [1]


def test_a_pause_is_named_as_the_reason_to_wait(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and the wait goes on."""
    daemon.answer("pause", who="ann")
    waits: list[int] = []

    def resume_later(_seconds: float) -> None:
        waits.append(1)
        if len(waits) == 3:
            daemon.answer("resume", who="ann")
        if len(waits) >= 3:
            daemon.period()

    monkeypatch.setattr(host_command, "sleep", resume_later)
    out = shell.ok("host maintenance host001").out
    assert out.count("The daemon is paused: no VM moves until `merkatd resume`.") == 1
    assert "host001 is empty at " in out
