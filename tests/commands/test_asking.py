"""The output and effect of each command that asks the daemon."""

import json
import time
from pathlib import Path

import pytest

from merkatd.cluster.snapshot_json import dumps, loads_with_decision
from merkatd.cluster.snapshot_npz import from_npz_with_decision
from merkatd.database.scheduler import bid_store, journal, period_store
from tests.commands.asking import Daemon, Shell


class TestExplain:
    def test_terms_add_up_to_the_share(self, asked: Shell) -> None:
        """This holds for each VM and resource, and the share equals the listed one."""
        listed = {vm["id"]: vm for vm in json.loads(asked.ok("list vms --json").out)}
        for vm in range(5):
            for part in json.loads(asked.ok(f"explain {vm} --json").out)["resources"]:
                terms = [part[name] for name in ("by_bid", "others", "floor", "cap", "rest")]
                assert sum(terms) == pytest.approx(part["share"])
                assert part["share"] == listed[vm][part["resource"]]

    def test_a_contended_vm_is_explained(self, asked: Shell) -> None:
        """The text has bid, share, price, cap, floor, host and the reasons."""
        out = asked.ok("explain web-0").out
        assert out.startswith(
            "VM 0 (web-0) gets 44.44 of the 400 % of CPU that it can use on host000: its bid of 1"
            " is 11.1 % of the 9 that 2 VMs bid there for 400"
        )
        assert "Why there    host000 had the least load of all hosts" in out
        assert "cpu: floor 0, cap 400, 135 credits per core-hour, costs 1 a period" in out
        assert "memory: floor 588.8, cap 2,048" in out

    def test_a_pending_vm_has_its_reason_in_the_first_line(self, asked: Shell) -> None:
        """The line says what the VM waits for."""
        first = asked.ok("explain big").lines[0]
        assert first.startswith("VM 5 (big) waits for a host: no host of market default that takes")
        assert "(a host with 20,000 MiB of memory, which its guest needs to start)" in first

    def test_the_bid_for_all_gets_all(self, daemon: Daemon, shell: Shell) -> None:
        """It does as long as other bids and the VM's host stay the same."""
        vm = daemon.frontend.vm(1.0, VCPU=1, NAME="one")
        daemon.period(2)
        wanted = daemon.answer("explain", vm="one")["resources"][0]
        assert wanted["limited_by"] == "bids"
        answer = daemon.answer("bid", vm=str(vm), cpu=wanted["bid_for_all"])
        assert answer["resources"][0]["new_share"] == pytest.approx(100.0)
        less = daemon.answer("bid", vm=str(vm), cpu=wanted["bid_for_all"] * 0.99)
        assert less["resources"][0]["new_share"] < 99.9
        assert "a bid of" in shell.ok("explain one").out

    def test_suspended_and_stopped_vms_are_explained(self, daemon: Daemon, shell: Shell) -> None:
        """They keep their floor or nothing."""
        daemon.frontend.bench.ok("one.vm.action", "suspend", 0)
        daemon.frontend.bench.ok("one.vm.action", "poweroff", 1)
        daemon.frontend.bench.ok("one.vm.action", "stop", 2)
        daemon.frontend.clock.advance(120)
        daemon.period(1)
        assert "is SUSPENDED: on host000 it keeps 512 MiB of memory" in shell.ok("explain 0").out
        assert "is POWEROFF: on host001 it keeps" in shell.ok("explain 1").out
        assert shell.ok("explain 2").lines[0] == (
            "VM 2 (web-2) is STOPPED: it holds nothing, bids nothing and pays nothing."
        )
        assert shell.ok("explain 3").out.startswith("VM 3 (web-3) gets")
        assert json.loads(shell.ok("explain 0 -j").out)["cost"] == 0

    def test_an_ambiguous_name_needs_the_id(self, daemon: Daemon, shell: Shell) -> None:
        """The error lists the ids."""
        daemon.frontend.vm(1.0, NAME="web-0")
        daemon.period()
        assert "2 VMs have the name 'web-0': use an id (0, 6)" in shell.refused("explain web-0")


class TestBid:
    def test_a_new_bid_is_stored_and_applies_in_the_next_period(
        self, daemon: Daemon, shell: Shell
    ) -> None:
        """Unnamed resources keep their bid, and the expected share and cost come true."""
        out = shell.ok("bid web-0 --cpu 9").out
        assert out.startswith("VM 0 (web-0) bids, from the next period on:")
        word = daemon.frontend.read(lambda c: bid_store.newest_bids(c, [0]))[0]
        assert (word.bid, word.source) == ({"cpu": 9.0, "memory": 1.0}, "xmlrpc")
        expected = json.loads(shell.ok("bid web-0 --json").out)["resources"][0]
        daemon.frontend.bench.ok("one.vm.update", 4, "MERKAT_MOVABLE=NO", 1)
        assert (expected["old"], expected["new"]) == (9.0, 9.0)
        daemon.period()
        assert daemon.answer("explain", vm="0")["resources"][0]["bid"] == 9.0
        assert daemon.answer("explain", vm="0")["bid_source"] == "xmlrpc"

    def test_without_values_the_bid_is_only_shown(self, daemon: Daemon, shell: Shell) -> None:
        """Nothing is stored, and no column shows new values."""
        before = daemon.frontend.read(lambda c: bid_store.history(c, 0))
        out = shell.ok("bid 0").out
        assert out.splitlines()[0] == "VM 0 (web-0) bids:"
        assert "NEW" not in out
        assert daemon.frontend.read(lambda c: bid_store.history(c, 0)) == before

    def test_expected_values_equal_the_decision(self, asked: Shell) -> None:
        """The share and cost of the old bid are the listed ones."""
        listed = json.loads(asked.ok("list vms -j -f ID=4").out)[0]
        parts = json.loads(asked.ok("bid 4 -j").out)["resources"]
        assert [part["share"] for part in parts] == [listed["cpu"], listed["memory"]]
        assert sum(part["cost"] for part in parts) == pytest.approx(listed["cost"])


class TestLog:
    def names(self, shell: Shell, words: str) -> set[str]:
        """Return the values of the first chosen column."""
        return set(shell.ok(f"log --csv --no-header {words}").lines)

    def test_filters_select_steps(self, shell: Shell, daemon: Daemon) -> None:
        """VM, host, kind, state, period and time can be combined."""
        daemon.period(2)
        daemon.frontend.bench.ok("one.vm.update", 0, 'MERKAT_BID_CPU="6"', 1)
        daemon.period()
        assert self.names(shell, "-l VM --vm web-1") == {"1"}
        assert self.names(shell, "-l KIND --kind deploy") == {"deploy"}
        assert self.names(shell, "-l HOST --host host001") == {"host001"}
        assert self.names(shell, "-l STATE --state confirmed") == {"confirmed"}
        assert self.names(shell, "-l STATE --state refused") == set()
        assert self.names(shell, "-l PERIOD --period 5") == {"5"}
        assert self.names(shell, "-l PERIOD --period 1-5") == {"1", "5"}
        assert self.names(shell, "-l PERIOD --period 6-9") == set()
        assert self.names(shell, "-l VM --vm 3 --kind deploy --host 1 --period 1") == {"3"}
        assert len(shell.ok("log --limit 3 --csv --no-header").lines) == 3
        now = daemon.frontend.clock.seconds()
        assert 300 <= now - 1_000_000 < 320, "the fifth period started less than 100 s ago"
        assert self.names(shell, "-l PERIOD --since 100s") == {"5"}
        assert self.names(shell, "-l PERIOD --since 1d") == {"1", "5"}
        date = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now - 100))
        assert self.names(shell, f"-l PERIOD --since {date}") == {"5"}

    def test_the_newest_step_is_last(self, asked: Shell) -> None:
        """The order is that of a log."""
        lines = asked.ok("log --csv --no-header -l PERIOD").lines
        assert lines == sorted(lines)

    def test_a_removed_vm_is_found_by_its_id(self, daemon: Daemon, shell: Shell) -> None:
        """Its name is no longer known."""
        daemon.frontend.bench.ok("one.vm.action", "terminate-hard", 0)
        daemon.period(2)
        assert {row["name"] for row in json.loads(shell.ok("log --vm 0 -j").out)} == {None}
        assert "no VM has the id or name 'web-0'" in shell.refused("log --vm web-0")


class TestPrice:
    def test_prices_show_the_present_and_the_trend(self, daemon: Daemon, shell: Shell) -> None:
        """The trend rises with a bid."""
        daemon.period(2)
        shell.ok("bid web-4 --cpu 9.5")
        daemon.period()
        row = json.loads(shell.ok("price -j -f RESOURCE=cpu").out)[0]
        per_core_hour = 100 * 60  # a price is of a hundredth of a core and a minute
        assert row["price"] == pytest.approx(per_core_hour * (1 + 3 + 4 + 2 + 9.5) / 800)
        assert row["unit"] == "core-hour"
        assert row["before"] == row["least"] == pytest.approx(per_core_hour * 18 / 800)
        assert row["most"] == row["price"]
        assert shell.ok("price -l TREND --no-header -f RESOURCE=cpu").out.strip() == "▁▁▁▁█"
        history = json.loads(shell.ok("price --history 2 -j").out)
        assert [row["period"] for row in history] == [4, 5]
        assert history[-1]["cpu"] == row["price"]

    def test_an_unknown_market_is_an_error(self, asked: Shell) -> None:
        """The error lists the markets."""
        assert "must be one of default" in asked.refused("price --market nope")
        assert "must be one of default" in asked.refused("price --history 2 --market nope")


class TestPlan:
    def test_a_plan_shows_the_next_periods_steps(self, daemon: Daemon, shell: Shell) -> None:
        """Steps have the same ids, and a dry run stores and sends nothing."""
        daemon.period(2)
        shell.ok("bid web-0 --cpu 12")
        stored = daemon.frontend.read(
            lambda c: (period_store.newest(c), journal.recent(c, journal.StepFilter(), 999))
        )
        out = shell.ok("plan").out
        assert "Dry run: nothing is done or stored." in out
        assert "gains " in out
        assert "; after " in out
        planned = json.loads(shell.ok("plan --json").out)
        assert (
            daemon.frontend.read(
                lambda c: (period_store.newest(c), journal.recent(c, journal.StepFilter(), 999))
            )
            == stored
        )
        daemon.period()
        assert daemon.frontend.scheduler.latest is not None
        done = daemon.frontend.scheduler.latest.decided
        assert planned["period"] == 5
        assert [step["id"] for step in planned["steps"]] == [step.id for step in done.limits.plan]
        assert planned["reasons"] == {str(vm): why for vm, why in done.decision.reasons.items()}

    def test_a_plan_shows_costs_and_steps_in_progress(self, daemon: Daemon, shell: Shell) -> None:
        """A new VM appears before and after its deployment is sent."""
        daemon.frontend.vm(2.0, NAME="new")
        rows = json.loads(shell.ok("plan -j -l KIND,NAME,COST,HOST -f KIND=deploy").out)
        assert rows[0]["name"] == "new"
        assert rows[0]["cost"] > 0
        daemon.frontend.scheduler.latest = daemon.frontend.period()
        assert "steps of earlier periods are under way" in shell.ok("plan").out

    def test_an_unreachable_cloud_is_an_error(self, daemon: Daemon, shell: Shell) -> None:
        """The error is one line."""
        daemon.frontend.bench.ok(
            "embedded.fault.add", {"kind": "refuse", "method": "one.hostpool.info", "count": 99}
        )
        assert "the cloud can't be reached" in shell.refused("plan")


class TestDaemon:
    def test_pause_and_resume_change_the_daemon(self, daemon: Daemon, shell: Shell) -> None:
        """`status` and `top` show the pause."""
        assert shell.ok("pause").out.startswith("Paused")
        assert daemon.frontend.scheduler.paused
        assert "PAUSED" in shell.ok("top --once").out
        assert "It is paused: no period starts" in shell.ok("status").out
        assert shell.ok("resume").out.startswith("Resumed: ")
        assert not daemon.frontend.scheduler.paused

    def test_a_saved_snapshot_is_the_decisions_input(
        self, asked: Shell, settled: Daemon, tmp_path: Path
    ) -> None:
        """It is saved in both forms and to standard output, and `plan` reads each."""
        latest = settled.frontend.scheduler.latest
        assert latest is not None
        basis = latest.decided.basis.to_json()
        text = dumps(latest.seen.snapshot, basis)
        plain, compact = tmp_path / "a.json", tmp_path / "a.npz"
        assert "period 4, 2 hosts, 6 VMs" in asked.ok(f"snapshot save {plain}").out
        asked.ok(f"snapshot save {compact}")
        assert plain.read_text() == text
        assert plain.stat().st_mode & 0o077 == 0, "the seed in it is secret"
        assert dumps(*from_npz_with_decision(compact.read_bytes())) == text
        assert dumps(*loads_with_decision(asked.ok("snapshot save -").out)) == text
        for file in (plain, compact):
            assert asked.ok(f"plan --snapshot {file}").out.startswith("Period 4, strategy tabu")

    def test_before_the_first_period_commands_answer_or_ask_to_wait(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Commands without data yet say that no period has ended."""
        new = Daemon()
        monkeypatch.setattr("merkatd.commands.socket_door.ask", new.ask)
        assert "No period has ended yet." in shell.ok("status").out
        assert "No period has ended yet." in shell.ok("top --once").out
        assert shell.ok("plan").out.startswith("Period 1, ")
        assert shell("log").out.startswith("PERIOD")
        for words in ("list vms", "price", "explain 0", "bid 0", "snapshot save x"):
            assert "no period has ended yet" in shell.refused(words)
        new.frontend.close()

    def test_an_unwritable_file_is_an_error(self, asked: Shell, tmp_path: Path) -> None:
        """The error has the path and the reason."""
        message = asked.refused(f"snapshot save {tmp_path}/no/where")
        assert f"{tmp_path}/no/where: No such file" in message
