"""What is watched: everything at a glance, applications, and quotes beside them."""

import json

import pytest

from tests.commands.asking import Daemon, Shell


class TestTop:
    def test_the_frame(self, asked: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        """Prices, bars, the dearest VM first, the last decisions."""
        monkeypatch.setenv("COLUMNS", "80")
        lines = asked.ok("top --once").lines
        assert lines[0] == "merkatd  period 4   2 hosts, 6 VMs   0 steps under way"
        assert lines[1].startswith("cpu     0.0225 ")
        assert any(line.startswith("host000        on      2  [||||") for line in lines)
        first = next(at for at, line in enumerate(lines) if line.startswith("ID"))
        assert lines[first + 1].split()[1] == "web-4"
        assert any(line.endswith("REASON") for line in lines)
        by_memory = asked.ok("top --once -o memory").lines
        assert by_memory[first + 1].split()[1] == "web-0"

    def test_what_a_frame_is_made_of(self, asked: Shell) -> None:
        """For other views."""
        overview = json.loads(asked.ok("top --json").out)
        assert set(overview) == {"status", "price", "hosts", "vms", "steps"}

    def test_without_a_terminal_frames_follow_each_other(
        self, asked: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Until it is interrupted."""

        def sleep(seconds: float) -> None:
            assert seconds == 2.0
            raise KeyboardInterrupt

        monkeypatch.setattr("merkatd.commands.status_commands.sleep", sleep)
        said = asked("top")
        assert said.code == 130
        assert said.out.startswith("merkatd  period 4")


def test_applications_tell_what_is_left_and_how_long_it_lasts(daemon: Daemon, shell: Shell) -> None:
    """A tenant's VMs outside every application stand in a row of their own."""
    ann = daemon.frontend.user("ann")
    daemon.frontend.vm(2.0, owner=ann)
    daemon.period(3)
    rows = json.loads(shell.ok("list applications -j").out)
    assert [row["vms"] for row in rows] == [6, 1]
    assert [row["running"] for row in rows] == [5, 1]
    assert rows[0]["pending"] == 1
    balances = daemon.frontend.balances()
    for row in rows:
        assert row["balance"] == balances[row["owner"]]
        assert row["lasts"] == pytest.approx(row["balance"] / row["cost"])


class TestQuote:
    def test_what_a_bid_gets_is_what_the_bid_command_says(self, asked: Shell) -> None:
        """The same share and cost; the bid in force where nothing is said."""
        quoted = json.loads(asked.ok("quote web-0 --cpu 9 --json").out)
        assert quoted["resources"][0]["share"] == pytest.approx(400 * 9 / 17)
        present = json.loads(asked.ok("quote web-0 --json").out)["resources"][0]
        bid = json.loads(asked.ok("bid web-0 --json").out)["resources"][0]
        assert (present["bid"], present["share"]) == (bid["old"], bid["share"])
        assert present["cost"] == bid["cost"]

    def test_the_bid_that_it_would_take_gets_it(self, asked: Shell) -> None:
        """And where no bid does, it says so."""
        wanted = json.loads(asked.ok("quote web-0 --want-cpu 200 --json").out)["resources"][0]
        again = json.loads(asked.ok(f"quote web-0 --cpu {wanted['bid']!r} --json").out)
        assert again["resources"][0]["share"] == pytest.approx(200)
        assert "no bid gets that share" in asked.ok("quote web-0 --want-cpu 401").out
        both = asked.refused("quote web-0 --cpu 1 --want-cpu 2")
        assert "only one of the two may be given" in both

    def test_a_new_vm_is_quoted_without_a_name(self, asked: Shell) -> None:
        """On the host where it would be tried first."""
        out = asked.ok("quote --cpu 4 --most-cpu 100 --least-memory 64").out
        assert out.startswith("A new VM on host")
