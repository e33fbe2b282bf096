"""`merkatd limits` shows wanted, set and used amounts; `merkatd release` removes all limits."""

import io
import json
from typing import Any

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from tests.commands.asking import Daemon, Shell


def rows(shell: Shell, words: str) -> list[dict[str, Any]]:
    """Return the JSON rows of a command."""
    listed: list[dict[str, Any]] = json.loads(shell.ok(f"{words} --json").out)
    return listed


class TestLimits:
    """Wanted, set and used amounts side by side."""

    def test_every_running_vm_is_listed(self, asked: Shell) -> None:
        """Its quota equals its share and bounds its use; a pending VM has no row."""
        limits = rows(asked, "limits")
        assert [row["name"] for row in limits] == [f"web-{number}" for number in range(5)]
        for row in limits:
            assert row["set_cpu"] == pytest.approx(row["cpu"], rel=0.03)
            assert row["used_cpu"] <= row["set_cpu"] * 1.01
            assert row["held_memory"] <= row["memory"] + 64
            assert row["note"] is None

    def test_one_vm_or_one_host_can_be_selected(self, asked: Shell) -> None:
        """Names and ids work; a number is first taken as a VM's id."""
        assert [row["id"] for row in rows(asked, "limits web-3")] == [3]
        assert [row["id"] for row in rows(asked, "limits 1")] == [1]
        host = rows(asked, "limits web-0")[0]["host"]
        there = rows(asked, f"limits {host}")
        assert {row["host"] for row in there} == {host}
        assert 0 in {row["id"] for row in there}
        assert rows(asked, "limits big") == []
        assert "no VM and no host has the id or name 'x'" in asked.refused("limits x")

    def test_limits_by_other_programs_are_shown(self, daemon: Daemon, shell: Shell) -> None:
        """They appear at once, before the next period."""
        daemon.frontend.cloud.guests.set_limits(2, vcpu_quota=77_000, global_quota=-1)
        row = rows(shell, "limits web-2")[0]
        assert row["set_cpu"] == pytest.approx(4 * 77.0)
        daemon.period()
        row = rows(shell, "limits web-2")[0]
        assert row["set_cpu"] == pytest.approx(row["cpu"], rel=0.03)


class TestRelease:
    """Removing Merkat leaves no trace."""

    def test_release_restores_full_sizes(self, daemon: Daemon, shell: Shell) -> None:
        """VMs get OpenNebula's own weights, and the paused daemon sets no limits again."""
        released = rows(shell, "release --yes")
        assert [row["id"] for row in released] == list(range(5))
        assert all("no CPU quota" in row["did"] and row["problem"] is None for row in released)
        assert daemon.frontend.scheduler.paused
        for row in rows(shell, "limits"):
            assert row["set_cpu"] is None
            assert row["weight"] == 1024
            assert row["set_memory"] == 2048

    def test_resuming_sets_all_limits_again(self, daemon: Daemon, shell: Shell) -> None:
        """After a resume the limits equal the shares again."""
        shell.ok("release --yes")
        shell.ok("resume")
        daemon.period(3)
        for row in rows(shell, "limits"):
            assert row["set_cpu"] == pytest.approx(row["cpu"], rel=0.03)

    def test_release_asks_for_confirmation(
        self, daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a terminal it needs --yes, and any answer except yes aborts."""
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert "--yes" in shell.refused("release", 2)

        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        result = shell("release")
        assert result.code == 1
        assert result.err.endswith("merkatd release: nothing was done\n")
        assert not daemon.frontend.scheduler.paused
        monkeypatch.setattr("sys.stdin", Terminal("y\n"))
        assert shell("release").code == 0
        assert daemon.frontend.scheduler.paused

    def test_failures_of_a_release_are_reported(self, daemon: Daemon, shell: Shell) -> None:
        """They appear in the VM's row and in the exit code."""
        daemon.frontend.cloud.guests.set_limits(0, vcpu_quota=5_000)
        daemon.frontend.cloud.faults.add(Fault(FaultKind.REFUSE, "embedded.limits.set"))
        result = shell("release", "--yes", "--csv")
        assert result.code == 1
        assert "5 VMs are not fully restored" in result.err
        assert len(result.lines) == 6

    def test_only_a_paused_daemon_releases_limits(self, daemon: Daemon) -> None:
        """A running daemon would set the limits again."""
        with pytest.raises(Exception, match="not paused"):
            daemon.answer("release", vms=[0])
