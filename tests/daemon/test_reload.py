"""On SIGHUP a daemon reloads its configuration; an invalid one leaves the old one in force."""

import os
import re
import socket
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from merkatd.api.control.control_client import ask
from merkatd.cli import main
from tests.daemon.processes import PATIENCE_S, Program, until

_GOOD = """
[daemon]
state_directory = "{folder}/state"
log_file = "daemon.log"
[period]
interval = "{interval}"
[cloud]
hosts = {hosts}
[acting]
mode = "{mode}"
[metrics]
enabled = true
port = 0
"""


def _run_as_systemd(words: Sequence[str]) -> int:
    """Run a command that notifies systemd at this address."""
    os.environ["NOTIFY_SOCKET"] = words[0]
    return main(words[1:])


class Running:
    """A daemon started as systemd starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "merkatd.toml"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listener.bind(str(folder / "notify"))
        self.listener.settimeout(PATIENCE_S)
        self.write()
        words = (str(folder / "notify"), "run", "--config", str(self.file))
        self.program = Program(folder / "output", *words, main=_run_as_systemd)
        assert self.heard().startswith("READY=1")

    def write(self, interval: str = "200ms", hosts: int = 2, mode: str = "on") -> None:
        """Write another configuration."""
        text = _GOOD.format(folder=self.folder, interval=interval, hosts=hosts, mode=mode)
        self.file.write_text(text)

    def reload(self) -> str:
        """Reload as systemd does; return the status message after the reload."""
        self.program.reload()
        words = self.heard().splitlines()
        assert words[0] == "RELOADING=1"
        assert words[1].startswith("MONOTONIC_USEC=")
        assert int(words[1].partition("=")[2]) > 0
        ready, _, status = self.heard().partition("\nSTATUS=")
        assert ready == "READY=1"
        return status

    def heard(self) -> str:
        """Return the next notification."""
        return self.listener.recv(4096).decode()

    def status(self) -> Any:
        """Return the answer to `merkatd status`."""
        return ask(self.folder / "state" / "control.sock", "status")

    def log(self) -> str:
        """Return the log until now."""
        return (self.folder / "state" / "daemon.log").read_text()

    def figures(self) -> str:
        """Return the metrics page."""
        (address,) = re.findall(r"Metrics are served at (\S+)", self.log())
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:  # noqa: S310 - our own
            return str(answer.read(), "utf-8")

    def end(self) -> None:
        """Stop the daemon with SIGTERM, and kill it in any case."""
        self.program.tell_to_end()
        try:
            assert self.program.end() == 0
        finally:
            self.program.kill()
            self.listener.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Start one daemon for all tests."""
    made = Running(tmp_path_factory.mktemp("reload"))
    yield made
    made.end()


def test_changed_keys_apply_from_the_next_period(daemon: Running) -> None:
    """The log and the status show them."""
    assert daemon.status()["mode"] == "on"
    daemon.write(interval="100ms", mode="dry")
    daemon.reload()
    assert daemon.status()["mode"] == "dry"
    assert daemon.status()["interval_s"] == 0.1
    assert "these keys change: acting.mode, period.interval" in daemon.log()
    assert "merkat_period_interval_seconds 0.1\n" in daemon.figures()
    until(lambda: "Mode dry: Period" in daemon.log(), "a dry period")


def test_an_invalid_file_leaves_the_old_configuration_in_force(daemon: Running) -> None:
    """The log lists every problem, the status the first; a valid file clears it."""
    daemon.write(interval="200ms", mode="on")
    daemon.reload()
    daemon.file.write_text('[period]\ninterval = "soon"\n[acting]\nmode = "off"\n')
    answer = daemon.reload()
    assert answer.startswith("refused: ")
    assert "(and 1 more)" in answer
    status = daemon.status()
    assert status["configuration"] == answer
    assert (status["mode"], status["interval_s"]) == ("on", 0.2)
    assert 'acting.mode = "off": must be one of dry' in daemon.log()
    assert "The configuration is refused: the old one stays in force" in daemon.log()
    before = status["period"]
    until(lambda: daemon.status()["period"] != before, "another period")
    daemon.write()
    daemon.reload()
    assert daemon.status()["configuration"] is None


def test_an_unusable_log_file_does_not_prevent_a_reload(daemon: Running) -> None:
    """The configuration is in force, and the log continues in its old file."""
    log, moved = daemon.folder / "state" / "daemon.log", daemon.folder / "moved.log"
    log.rename(moved)
    log.mkdir()
    daemon.write(interval="100ms", mode="dry")
    answer = daemon.reload()
    assert answer == "in force, but the log continues in its old file: Is a directory"
    status = daemon.status()
    assert status["configuration"] == answer
    assert (status["mode"], status["interval_s"]) == ("dry", 0.1)
    assert answer.replace("in force", "The configuration is in force") in moved.read_text()
    log.rmdir()
    daemon.write()
    daemon.reload()
    assert daemon.status()["configuration"] is None
    assert log.is_file()
    log.write_text(moved.read_text() + log.read_text())


def test_a_missing_file_is_rejected_too(daemon: Running) -> None:
    """The daemon does not fall back to defaults."""
    daemon.file.unlink()
    assert "can't be read: No such file" in daemon.reload()
    daemon.write()
    daemon.reload()
    assert daemon.status()["configuration"] is None


def test_keys_that_need_a_restart_are_reported(daemon: Running) -> None:
    """The status names them until the file has the values in force again."""
    daemon.write(hosts=5)
    assert daemon.reload() == "needs a restart: cloud.hosts"
    assert daemon.status()["hosts"] == 2
    assert "cloud.hosts needs a restart" in daemon.log()
    daemon.write()
    daemon.reload()
    assert daemon.status()["configuration"] is None


def test_a_rotated_log_file_is_opened_again(daemon: Running) -> None:
    """The file is moved as logrotate does it, before a SIGHUP."""
    log = daemon.folder / "state" / "daemon.log"
    log.rename(log.with_suffix(".1"))
    daemon.reload()
    until(lambda: "Period" in daemon.log(), "a period in the new file")


def test_many_reloads_at_once_succeed(daemon: Running) -> None:
    """The last file applies, and each reload that starts also ends."""
    daemon.write(mode="dry")
    for _ in range(20):
        daemon.program.reload()
    heard = [daemon.heard().partition("\n")[0]]
    until(lambda: daemon.status()["mode"] == "dry", "the new mode")

    def all_ended() -> bool:
        daemon.listener.setblocking(False)
        try:
            while True:
                heard.append(daemon.heard().partition("\n")[0])
        except BlockingIOError:
            return heard.count("READY=1") == heard.count("RELOADING=1")

    until(all_ended, "all reloads have ended")
    assert heard == ["RELOADING=1", "READY=1"] * (len(heard) // 2)
    assert daemon.status()["configuration"] is None
