"""Overviews: `top`, applications, and quotes."""

import json

import pytest

from tests.commands.asking import Daemon, Shell


class TestTop:
    def test_top_shows_an_overview(self, asked: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        """It has prices, bars, VMs by cost, and the last decisions."""
        monkeypatch.setenv("COLUMNS", "80")
        lines = asked.ok("top --once").lines
        assert lines[0] == "merkatd  period 4   2 hosts, 6 VMs   0 steps under way"
        assert lines[1].startswith("cpu     135 credits per core-hour ")
        assert any(line.startswith("host000        on      2  [||||") for line in lines)
        first = next(at for at, line in enumerate(lines) if line.startswith("ID"))
        assert lines[first + 1].split()[1] == "web-4"
        assert any(line.endswith("REASON") for line in lines)
        by_memory = asked.ok("top --once -o memory").lines
        assert by_memory[first + 1].split()[1] == "web-0"

    def test_json_has_the_parts_of_a_frame(self, asked: Shell) -> None:
        """Other programs can use them."""
        overview = json.loads(asked.ok("top --json").out)
        assert set(overview) == {"status", "price", "hosts", "vms", "steps"}

    def test_without_a_terminal_frames_follow_each_other(
        self, asked: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They continue until an interruption."""

        def sleep(seconds: float) -> None:
            assert seconds == 2.0
            raise KeyboardInterrupt

        monkeypatch.setattr("merkatd.commands.status_commands.sleep", sleep)
        result = asked("top")
        assert result.code == 130
        assert result.out.startswith("merkatd  period 4")


def test_applications_show_their_balance_and_how_long_it_lasts(
    daemon: Daemon, shell: Shell
) -> None:
    """A tenant's VMs outside of applications have a row of their own."""
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
    def test_a_quote_equals_the_bid_command(self, asked: Shell) -> None:
        """Share and cost are equal, and a missing bid is the present one."""
        quoted = json.loads(asked.ok("quote web-0 --cpu 9 --json").out)
        assert quoted["resources"][0]["share"] == pytest.approx(400 * 9 / 17)
        present = json.loads(asked.ok("quote web-0 --json").out)["resources"][0]
        bid = json.loads(asked.ok("bid web-0 --json").out)["resources"][0]
        assert (present["bid"], present["share"]) == (bid["old"], bid["share"])
        assert present["cost"] == bid["cost"]

    def test_the_quoted_bid_gets_the_wanted_share(self, asked: Shell) -> None:
        """If no bid gets it, the answer says so."""
        wanted = json.loads(asked.ok("quote web-0 --want-cpu 200 --json").out)["resources"][0]
        again = json.loads(asked.ok(f"quote web-0 --cpu {wanted['bid']!r} --json").out)
        assert again["resources"][0]["share"] == pytest.approx(200)
        assert "no bid gets that share" in asked.ok("quote web-0 --want-cpu 401").out
        both = asked.refused("quote web-0 --cpu 1 --want-cpu 2")
        assert "only one of the two may be given" in both

    def test_a_new_vm_is_quoted_without_a_name(self, asked: Shell) -> None:
        """The quote is for the host that is tried first."""
        out = asked.ok("quote --cpu 4 --most-cpu 100 --least-memory 64").out
        assert out.startswith("A new VM on host")
