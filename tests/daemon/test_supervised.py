"""The daemon notifies systemd of its state."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from merkatd.commands.programs.run_command import SystemdNotifier

PATIENCE_S = 120.0


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """Return systemd's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.settimeout(PATIENCE_S)
        yield made


def environment_for(listener: socket.socket, **others: str) -> dict[str, str]:
    """Return the environment that systemd gives."""
    return {"NOTIFY_SOCKET": str(listener.getsockname()), **others}


def heard(listener: socket.socket) -> list[str]:
    """Return the notifications until now."""
    listener.setblocking(False)
    messages = []
    while True:
        try:
            messages.append(listener.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_a_daemon_reports_its_start_its_life_and_its_end(
    tmp_path: Path, listener: socket.socket
) -> None:
    """It sends them in this order to the socket of the environment."""
    file = tmp_path / "merkatd.toml"
    file.write_text(f'[daemon]\nstate_directory = "{tmp_path / "state"}"\n[cloud]\nhosts = 1\n')
    daemon = subprocess.Popen(
        [sys.executable, "-m", "merkatd.cli", "run", "--config", str(file)],
        env=os.environ | environment_for(listener, WATCHDOG_USEC="200000"),
        stderr=subprocess.PIPE,
    )
    try:
        assert listener.recv(4096).startswith(b"READY=1\nSTATUS=")
        assert [listener.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        daemon.send_signal(signal.SIGTERM)
        rest = iter(
            lambda: listener.recv(4096), b"STOPPING=1\nSTATUS=Stopping after the current work"
        )
        assert set(rest) <= {b"WATCHDOG=1"}
        assert daemon.wait(PATIENCE_S) == 0
    finally:
        daemon.kill()
        daemon.communicate()


def test_the_watchdog_is_notified_twice_per_interval(listener: socket.socket) -> None:
    """Only the watched process notifies it, and not after the end."""
    clock = Clock()
    for pid, times in ((str(os.getpid()), 5), ("1", 0)):
        notifier = SystemdNotifier(
            environment_for(listener, WATCHDOG_USEC="60000000", WATCHDOG_PID=pid), clock
        )
        notifier.ready("well")
        clock.pump([30.0] * 4)
        notifier.stop()
        clock.advance(120)
        assert heard(listener) == ["READY=1\nSTATUS=well", *["WATCHDOG=1"] * times]


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "@merkat-nobody-listens"])
def test_a_missing_socket_has_no_effect(address: str) -> None:
    """The daemon works without systemd."""
    supervisor = SystemdNotifier({"NOTIFY_SOCKET": address}, Clock())
    supervisor.ready("well")
    supervisor.ending()
    supervisor.stop()


def test_an_abstract_address_is_supported() -> None:
    """Containers use such addresses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0merkat-{os.getpid()}")
        SystemdNotifier({"NOTIFY_SOCKET": f"@merkat-{os.getpid()}"}, Clock()).ending()
        assert heard(listener) == ["STOPPING=1\nSTATUS=Stopping after the current work"]
