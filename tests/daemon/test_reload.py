"""At SIGHUP a daemon reads its configuration anew; a refused one leaves the old one in force."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from merkatd.api.control.control_client import ask
from tests.daemon.processes import PATIENCE_S, until

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


class Running:
    """A daemon as systemd starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "merkatd.toml"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listener.bind(str(folder / "notify"))
        self.listener.settimeout(PATIENCE_S)
        self.write()
        words = [sys.executable, "-m", "merkatd.cli", "run", "--config", str(self.file)]
        environment = os.environ | {"NOTIFY_SOCKET": str(folder / "notify")}
        self.process = subprocess.Popen(words, env=environment)
        assert self.heard().startswith("READY=1")

    def write(self, interval: str = "200ms", hosts: int = 2, mode: str = "on") -> None:
        """Another configuration."""
        text = _GOOD.format(folder=self.folder, interval=interval, hosts=hosts, mode=mode)
        self.file.write_text(text)

    def reload(self) -> str:
        """As systemd does it; the status that is told when it is over."""
        self.process.send_signal(signal.SIGHUP)
        words = self.heard().splitlines()
        assert words[0] == "RELOADING=1"
        assert words[1].startswith("MONOTONIC_USEC=")
        assert int(words[1].partition("=")[2]) > 0
        ready, _, status = self.heard().partition("\nSTATUS=")
        assert ready == "READY=1"
        return status

    def heard(self) -> str:
        """What is told next."""
        return self.listener.recv(4096).decode()

    def status(self) -> Any:
        """What `merkatd status` asks for."""
        return ask(self.folder / "state" / "control.sock", "status")

    def log(self) -> str:
        """What was written until now."""
        return (self.folder / "state" / "daemon.log").read_text()

    def figures(self) -> str:
        """What Prometheus would read."""
        (address,) = re.findall(r"Metrics are served at (\S+)", self.log())
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:  # noqa: S310 - our own
            return str(answer.read(), "utf-8")

    def end(self) -> None:
        """With SIGTERM, and whatever happens it is gone."""
        self.process.terminate()
        try:
            assert self.process.wait(PATIENCE_S) == 0
        finally:
            self.process.kill()
            self.listener.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One for all tests: it goes on through all of this."""
    made = Running(tmp_path_factory.mktemp("reload"))
    yield made
    made.end()


def test_what_changed_counts_from_the_next_period_on(daemon: Running) -> None:
    """The log names it, the status shows it."""
    assert daemon.status()["mode"] == "on"
    daemon.write(interval="100ms", mode="dry")
    daemon.reload()
    assert daemon.status()["mode"] == "dry"
    assert daemon.status()["interval_s"] == 0.1
    assert "these keys change: acting.mode, period.interval" in daemon.log()
    assert "merkat_period_interval_seconds 0.1\n" in daemon.figures()
    until(lambda: "Mode dry: Period" in daemon.log(), "a dry period")


def test_a_refused_file_leaves_the_old_one_in_force(daemon: Running) -> None:
    """The log has every problem, status and systemd the first; a good file takes it back."""
    daemon.write(interval="200ms", mode="on")
    daemon.reload()
    daemon.file.write_text('[period]\ninterval = "soon"\n[acting]\nmode = "off"\n')
    said = daemon.reload()
    assert said.startswith("refused: ")
    assert "(and 1 more)" in said
    status = daemon.status()
    assert status["configuration"] == said
    assert (status["mode"], status["interval_s"]) == ("on", 0.2)
    assert 'acting.mode = "off": must be one of dry' in daemon.log()
    assert "The configuration is refused: the old one stays in force" in daemon.log()
    before = status["period"]
    until(lambda: daemon.status()["period"] != before, "another period")
    daemon.write()
    daemon.reload()
    assert daemon.status()["configuration"] is None


def test_a_log_that_can_not_be_opened_refuses_nothing(daemon: Running) -> None:
    """What is in force is said to be; the log goes on in the file that it had."""
    log, moved = daemon.folder / "state" / "daemon.log", daemon.folder / "moved.log"
    log.rename(moved)
    log.mkdir()
    daemon.write(interval="100ms", mode="dry")
    said = daemon.reload()
    assert said == "in force, but the log continues in its old file: Is a directory"
    status = daemon.status()
    assert status["configuration"] == said
    assert (status["mode"], status["interval_s"]) == ("dry", 0.1)
    assert said.replace("in force", "The configuration is in force") in moved.read_text()
    log.rmdir()
    daemon.write()
    daemon.reload()
    assert daemon.status()["configuration"] is None
    assert log.is_file()
    log.write_text(moved.read_text() + log.read_text())


def test_a_file_that_is_gone_is_refused_too(daemon: Running) -> None:
    """Nothing falls back to defaults."""
    daemon.file.unlink()
    assert "can't be read: No such file" in daemon.reload()
    daemon.write()
    daemon.reload()
    assert daemon.status()["configuration"] is None


def test_what_needs_a_restart_is_said(daemon: Running) -> None:
    """By name, until the file says again what is in force."""
    daemon.write(hosts=5)
    assert daemon.reload() == "needs a restart: cloud.hosts"
    assert daemon.status()["hosts"] == 2
    assert "cloud.hosts needs a restart" in daemon.log()
    daemon.write()
    daemon.reload()
    assert daemon.status()["configuration"] is None


def test_a_log_that_was_moved_away_is_begun_anew(daemon: Running) -> None:
    """As logrotate does it."""
    log = daemon.folder / "state" / "daemon.log"
    log.rename(log.with_suffix(".1"))
    daemon.reload()
    until(lambda: "Period" in daemon.log(), "a period in the new file")


def test_many_at_once_are_no_matter(daemon: Running) -> None:
    """The last one counts, and each that was begun is brought to its end."""
    daemon.write(mode="dry")
    for _ in range(20):
        daemon.process.send_signal(signal.SIGHUP)
    heard = [daemon.heard().partition("\n")[0]]
    until(lambda: daemon.status()["mode"] == "dry", "the new mode")

    def all_ended() -> bool:
        daemon.listener.setblocking(False)
        try:
            while True:
                heard.append(daemon.heard().partition("\n")[0])
        except BlockingIOError:
            return heard.count("READY=1") == heard.count("RELOADING=1")

    until(all_ended, "each brought to its end")
    assert heard == ["RELOADING=1", "READY=1"] * (len(heard) // 2)
    assert daemon.status()["configuration"] is None
