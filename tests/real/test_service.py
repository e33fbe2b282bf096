"""The service under a real systemd: its user, rights, start, reload, watchdog, kill and stop."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.host import ROOT, until
from tests.real.pid_one import PidOne

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-sysusers") is None, reason="systemd is not here"
)

CONFIG = """
[daemon]
state_directory = "/var/lib/merkat"
[period]
interval = "{interval}"
[cloud]
hosts = 2
[acting]
mode = "{mode}"
"""
_DROP_IN = """\
[Service]
Environment=NUMBA_DISABLE_JIT=1
StandardError=append:/run/merkatd.log
WatchdogSec={watchdog_s}s
RestartSec=100ms
"""
WATCHDOG_S = 5
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PidOne]:
    """Return a system with Merkat's user, folders and configuration; the service is not started."""
    drop_in = _DROP_IN.format(watchdog_s=WATCHDOG_S)
    made = PidOne(tmp_path_factory.mktemp("systemd"), drop_in)
    try:
        for tool, file in (("systemd-sysusers", "sysusers"), ("systemd-tmpfiles", "tmpfiles")):
            create = ("--create",) if tool == "systemd-tmpfiles" else ()
            made.ok(tool, *create, f"/opt/merkat-src/systemd/merkat.{file}")
        configure(made)
        made.ok("systemctl", "daemon-reload")
        yield made
    finally:
        made.close()


def configure(system: PidOne, mode: str = "on", interval: str = "500ms") -> None:
    """Write the configuration as an administrator does: owned by root, readable by the daemon."""
    system.put("/etc/merkat/merkatd.toml", CONFIG.format(mode=mode, interval=interval), mode="640")
    system.ok("chgrp", "merkat", "/etc/merkat/merkatd.toml")


def pid(system: PidOne) -> str:
    """Return the daemon's process id, as systemd knows it."""
    return system.show("MainPID")


def started(system: PidOne) -> str:
    """Start the service; return the daemon's process id once it is ready."""
    if system.show("ActiveState") != "active":
        ran = system.run("systemctl", "start", "merkatd")
        assert ran.code == 0, _why(system)
    return pid(system)


def _why(system: PidOne) -> str:
    """Return why the service did not start: the failed step of its start, and its log."""
    step = system.show("ExecMainStatus")
    return f"{step} (see man systemd.exec)\n{system.run('tail', '/run/merkatd.log').out}"


def status(system: PidOne, column: str) -> str:
    """Return a field of the daemon's status, read as the daemon's user."""
    asked = f"merkatd status --config /etc/merkat/merkatd.toml -l {column} --csv --no-header"
    # Standard error has a warning in modes that do nothing.
    quiet = ("/bin/sh", "-c", f"{asked} 2>/dev/null")
    return system.ok("setpriv", "--reuid=merkat", "--regid=merkat", "--clear-groups", *quiet)


def periods(system: PidOne) -> int:
    """Return the number of the daemon's latest period, 0 before its first."""
    number = status(system, "PERIOD")
    return int(number) if number.isdigit() else 0


class TestStarted:
    def test_start_returns_when_it_is_ready(self, system: PidOne) -> None:
        """`systemctl start` returns once the control socket answers, not before."""
        started(system)
        assert system.show("StatusText") == "Running; see `merkatd status`"
        until(lambda: periods(system) > 1, "periods", patience_s=PATIENCE_S)

    def test_it_has_no_rights(self, system: PidOne) -> None:
        """The kernel shows the missing capabilities; the text of the unit does not count."""
        of = started(system)
        status = dict(
            line.split(":\t", 1)
            for line in system.ok("cat", f"/proc/{of}/status").splitlines()
            if ":\t" in line
        )
        uid = system.ok("id", "-u", "merkat")
        assert set(status["Uid"].split()) == {uid}
        assert int(uid) > 0
        assert {status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")

    def test_it_can_write_in_its_own_folders_alone(self, system: PidOne) -> None:
        """In the service's view, the folders and processes of other users are not even visible."""
        of = started(system)

        def inside(script: str) -> int:
            enter = ("nsenter", "-t", of, "-m", "-r", "setpriv", "--reuid=merkat", "--regid=merkat")
            return system.run(*enter, "--clear-groups", "/bin/sh", "-c", script).code

        assert inside("touch /var/lib/merkat/x && rm /var/lib/merkat/x") == 0
        assert inside("touch /run/merkat/x && rm /run/merkat/x") == 0
        for place in ("/etc/merkat", "/usr/bin", "/var/lib", "/opt/merkat-src", "/"):
            assert inside(f"touch {place}/x") != 0
        system.ok("touch", "/tmp/of-others")  # noqa: S108 - another system's
        assert inside("test -e /tmp/of-others") != 0
        assert inside("ls /root") != 0
        assert inside("test -r /etc/merkat/merkatd.toml") == 0


class TestReload:
    def test_a_new_mode_applies_without_a_restart(self, system: PidOne) -> None:
        """`systemctl reload` applies a new mode."""
        before = started(system)
        configure(system, mode="dry")
        system.ok("systemctl", "reload", "merkatd")
        until(lambda: "Mode dry" in system.ok("cat", "/run/merkatd.log"), "a dry period")
        assert pid(system) == before
        configure(system)
        system.ok("systemctl", "reload", "merkatd")
        # `systemctl reload` returns before the daemon has read the file.
        until(lambda: status(system, "MODE") == "on", "the old mode")

    def test_a_refused_file_leaves_the_old_one_in_force(self, system: PidOne) -> None:
        """`systemctl status` gives the reason, and the service continues."""
        before = started(system)
        configure(system, interval="soon")
        system.ok("systemctl", "reload", "merkatd")
        until(lambda: system.show("StatusText").startswith("refused: "), "it is refused")
        count = periods(system)
        until(lambda: periods(system) > count, "it goes on", patience_s=PATIENCE_S)
        assert (pid(system), system.show("ActiveState")) == (before, "active")
        configure(system)
        system.ok("systemctl", "reload", "merkatd")
        until(lambda: system.show("StatusText").startswith("Running"), "a valid one is taken")


class TestFailing:
    def test_a_daemon_that_hangs_is_restarted(self, system: PidOne) -> None:
        """The watchdog kills a daemon that hangs, and the next one is ready soon."""
        before = started(system)
        system.ok("kill", "-STOP", before)
        until(
            lambda: system.show("ActiveState") == "active" and pid(system) not in {before, "0"},
            "another one",
            patience_s=PATIENCE_S,
        )
        assert system.show("NRestarts") == "1"

    def test_a_killed_daemon_is_restarted(self, system: PidOne) -> None:
        """The new daemon finds its database unchanged."""
        before = started(system)
        count = periods(system)
        system.ok("kill", "-KILL", before)
        until(
            lambda: system.show("ActiveState") == "active" and pid(system) not in {before, "0"},
            "another one",
            patience_s=PATIENCE_S,
        )
        until(lambda: periods(system) > count, "it goes on", patience_s=PATIENCE_S)


def test_stopped_it_ends_in_order(system: PidOne) -> None:
    """It exits with 0, leaves no process behind, and can be started again."""
    started(system)
    system.ok("systemctl", "stop", "merkatd")
    assert (system.show("Result"), system.show("ExecMainStatus")) == ("success", "0")
    assert system.show("ActiveState") == "inactive"
    assert system.run("pgrep", "-u", "merkat").out == ""
    started(system)
    system.ok("systemctl", "stop", "merkatd")


def test_a_broken_configuration_is_reported_at_the_start(system: PidOne) -> None:
    """The start fails once, with the reason in the log; systemd does not try again."""
    system.ok("systemctl", "stop", "merkatd")
    before = system.show("NRestarts")
    configure(system, interval="soon")
    assert system.run("systemctl", "start", "merkatd").code != 0
    assert "period.interval" in system.ok("tail", "-n", "3", "/run/merkatd.log")
    # Another try would begin after a tenth of a second, and change this state.
    system.ok("sleep", "2")
    assert (system.show("ActiveState"), system.show("ExecMainStatus")) == ("failed", "78")
    assert system.show("NRestarts") == before
    configure(system)
    system.run("systemctl", "reset-failed", "merkatd")
    assert started(system) != "0"


def test_the_packaged_configuration_starts(system: PidOne) -> None:
    """etc/merkatd.toml starts unchanged, apart from the path of the state directory."""
    text = (ROOT / "etc/merkatd.toml").read_text()
    given = text.replace('"~/.local/state/merkat"', '"/var/lib/merkat"')
    assert given != text
    system.ok("systemctl", "stop", "merkatd")
    system.put("/etc/merkat/merkatd.toml", given, mode="644")
    started(system)
    assert Path("/var/lib/merkat").name in system.ok("ls", "/var/lib")
    system.ok("systemctl", "stop", "merkatd")
