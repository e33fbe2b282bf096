"""`merkatd limits` shows what is wanted, set and used; `merkatd release` takes it all back."""

import io
import json
from typing import Any

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from tests.commands.asking import Daemon, Shell


def rows(shell: Shell, words: str) -> list[dict[str, Any]]:
    """What a command prints as JSON."""
    found: list[dict[str, Any]] = json.loads(shell.ok(f"{words} --json").out)
    return found


class TestLimits:
    """Wanted, set and used, side by side."""

    def test_every_vm_that_runs(self, asked: Shell) -> None:
        """Its quota is its share, and so is what it used; the one that waits has none."""
        found = rows(asked, "limits")
        assert [row["name"] for row in found] == [f"web-{number}" for number in range(5)]
        for row in found:
            assert row["set_cpu"] == pytest.approx(row["cpu"], rel=0.03)
            assert row["used_cpu"] <= row["set_cpu"] * 1.01
            assert row["held_memory"] <= row["memory"] + 64
            assert row["note"] is None

    def test_of_one_vm_or_one_host(self, asked: Shell) -> None:
        """By name or id; a number is a VM's before it is a host's."""
        assert [row["id"] for row in rows(asked, "limits web-3")] == [3]
        assert [row["id"] for row in rows(asked, "limits 1")] == [1]
        host = rows(asked, "limits web-0")[0]["host"]
        there = rows(asked, f"limits {host}")
        assert {row["host"] for row in there} == {host}
        assert 0 in {row["id"] for row in there}
        assert rows(asked, "limits big") == []
        assert "no VM and no host has the id or name 'x'" in asked.refused("limits x")

    def test_somebody_else_s_limits_are_seen(self, daemon: Daemon, shell: Shell) -> None:
        """At once, before any period."""
        daemon.frontend.cloud.guests.set_limits(2, vcpu_quota=77_000, global_quota=-1)
        row = rows(shell, "limits web-2")[0]
        assert row["set_cpu"] == pytest.approx(4 * 77.0)
        daemon.period()
        row = rows(shell, "limits web-2")[0]
        assert row["set_cpu"] == pytest.approx(row["cpu"], rel=0.03)


class TestRelease:
    """Removing Merkat leaves no trace."""

    def test_everything_is_as_it_was(self, daemon: Daemon, shell: Shell) -> None:
        """Full sizes, OpenNebula's own weights; the daemon is paused and sets nothing again."""
        found = rows(shell, "release --yes")
        assert [row["id"] for row in found] == list(range(5))
        assert all("no CPU quota" in row["did"] and row["problem"] is None for row in found)
        assert daemon.frontend.scheduler.paused
        for row in rows(shell, "limits"):
            assert row["set_cpu"] is None
            assert row["weight"] == 1024
            assert row["set_memory"] == 2048

    def test_going_on_sets_it_all_again(self, daemon: Daemon, shell: Shell) -> None:
        """As if nothing had been."""
        shell.ok("release --yes")
        shell.ok("resume")
        daemon.period(3)
        for row in rows(shell, "limits"):
            assert row["set_cpu"] == pytest.approx(row["cpu"], rel=0.03)

    def test_it_asks_first(
        self, daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where nobody can be asked it must be told; whoever does not say yes has said no."""
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert "--yes" in shell.refused("release", 2)

        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        said = shell("release")
        assert said.code == 1
        assert said.err.endswith("merkatd release: nothing was done\n")
        assert not daemon.frontend.scheduler.paused
        monkeypatch.setattr("sys.stdin", Terminal("y\n"))
        assert shell("release").code == 0
        assert daemon.frontend.scheduler.paused

    def test_what_could_not_be_given_back_is_told(self, daemon: Daemon, shell: Shell) -> None:
        """In the row of its VM, and by the exit code."""
        daemon.frontend.cloud.guests.set_limits(0, vcpu_quota=5_000)
        daemon.frontend.cloud.faults.add(Fault(FaultKind.REFUSE, "embedded.limits.set"))
        said = shell("release", "--yes", "--csv")
        assert said.code == 1
        assert "5 VMs are not fully restored" in said.err
        assert len(said.lines) == 6

    def test_only_what_is_paused_is_released(self, daemon: Daemon) -> None:
        """What a daemon that goes on released would be set again."""
        with pytest.raises(Exception, match="not paused"):
            daemon.answer("release", vms=[0])
