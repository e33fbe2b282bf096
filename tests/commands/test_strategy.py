"""`merkatd strategy` says what strategies declare, and `plan --snapshot` decides as they did."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from merkatd.cluster import Deploy
from merkatd.placement import STRATEGIES
from merkatd.placement.contract import Need
from merkatd.placement.pack.pack import PackSettings
from merkatd.placement.tabu.tabu import TabuSettings
from merkatd.scheduler.base.settings import MarketRules
from tests.commands.asking import Daemon, Shell


def with_settings(daemon: Daemon, **changes: Any) -> None:
    """Change the settings of the only market."""
    scheduler = daemon.frontend.scheduler
    market = MarketRules(strategy_settings=replace(TabuSettings(), **changes))
    scheduler.adopt(replace(scheduler.world, markets=(market,)))


def test_list_names_each_strategy_with_its_markets(asked: Shell) -> None:
    """The columns are those that the help describes."""
    lines = asked.ok("strategy list").lines
    assert lines[0].split() == ["NAME", "MARKETS", "ALLOCATES", "CHARGES", "LACKS", "SUMMARY"]
    rows = {line.split()[0]: line.split() for line in lines[1:]}
    assert list(rows) == list(STRATEGIES)
    assert rows["tabu"][1:4] == ["default", "shares", "shares"]
    assert "use" in rows["groups"]


def test_show_has_every_setting_with_its_value_and_range(daemon: Daemon, shell: Shell) -> None:
    """Values are written as in the configuration."""
    with_settings(daemon, hold_s=1800.0, m_max_part=0.1)
    answer = json.loads(shell.ok("strategy show tabu --json").out)
    by_key = {row["key"]: row for row in answer["settings"]}
    hold, part, objective = by_key["hold"], by_key["m_max_part"], by_key["objective"]
    assert (hold["value"], hold["default"], hold["least"], hold["most"]) == (
        "30m",
        "10m",
        "0s",
        "30d",
    )
    assert (part["market"], part["value"], part["default"]) == ("default", "10%", "2%")
    assert (objective["value"], objective["least"], objective["tunable"]) == (
        "shortfall",
        None,
        "no",
    )
    assert hold["meaning"] == "The time for which a VM stays on its host after a migration."
    assert all(row["meaning"] for row in answer["settings"])


def test_show_says_in_words_what_it_does(asked: Shell) -> None:
    """The text names markets, allocations and charges."""
    out = asked.ok("strategy show tabu").out
    assert "Markets: default\n" in out
    assert "Allocates shares: bids divide the hosts" in out
    assert "Charges shares: VMs pay" in out
    assert "Markets: none\n" in asked.ok("strategy show paper").out


def test_show_has_the_declared_limits_on_migrations(daemon: Daemon, shell: Shell) -> None:
    """With their values in each market, whatever the settings are called; none is said as well."""
    with_settings(daemon, hold_s=1800.0, m_max_least=2)
    daemon.frontend.vm(1.0)
    daemon.period()
    (moves,) = json.loads(shell.ok("strategy show tabu --json").out)["moves"]
    assert (moves["market"], moves["most"], moves["hold"]) == ("default", 2, "30m")
    lines = " ".join(shell.ok("strategy show tabu").out.split())
    assert (
        f"Migrates in market default: at most 2 VMs in a period (of {moves['vms']} VMs); a migrated"
        " VM stays for 30m unless it must leave its host (from hold, m_max_least, m_max_part)"
        in lines
    )
    assert "Migrates: any number of VMs\n" in shell.ok("strategy show groups").out
    paper = " ".join(shell.ok("strategy show paper").out.split())
    assert "at most 20 VMs in a period (of 1,000 VMs)" in paper


def test_what_the_cloud_lacks_is_named(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list, `show`, and the status of a market whose strategy can't decide name it."""
    entries = cast("dict[str, Any]", STRATEGIES)
    needy = replace(STRATEGIES["tabu"], needs=frozenset({Need.DOMAINS, Need.JOBS}))
    monkeypatch.setitem(entries, "tabu", needy)
    for host in (0, 1):
        daemon.frontend.bench.ok("one.host.update", host, 'NOTE="not described"', 0)
    daemon.period()
    (row,) = [line for line in shell.ok("strategy list").lines if line.startswith("tabu")]
    assert "domains" in row
    assert "jobs" not in row
    out = " ".join(shell.ok("strategy show tabu").out.split())
    assert "Needs domains: missing in market default (from MERKAT_NETWORK_DOMAIN or" in out
    assert (
        "Needs jobs: filled (from platform templates with a table [job]; empty without any)" in out
    )
    status = " ".join(shell.ok("status").out.split())
    assert "strategy tabu needs parts that the cloud lacks: domains" in status


def two_markets(daemon: Daemon, gold: str) -> None:
    """Put the second host into market gold with this strategy."""
    frontend = daemon.frontend
    cluster = frontend.bench.ok("one.cluster.allocate", "gold")
    frontend.bench.ok("one.cluster.adddatastore", cluster, 0)
    frontend.bench.ok("one.cluster.addhost", cluster, 1)
    for host in (0, 1):
        frontend.bench.ok("one.host.update", host, 'NOTE="not described"', 0)
    rules = MarketRules(name="gold", strategy=gold, cluster_names=frozenset({"gold"}))
    frontend.scheduler.adopt(
        replace(frontend.scheduler.world, markets=(rules, MarketRules(strategy="tabu")))
    )


@pytest.mark.parametrize(
    ("gold", "described", "lacking"),
    [
        ("paper", 1, []),
        ("paper", 0, ["gold"]),
        ("tabu", 0, ["default", "gold"]),
        ("tabu", 1, ["default", "gold"]),
    ],
)
def test_needs_are_judged_by_the_hosts_of_each_market(
    daemon: Daemon,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    gold: str,
    described: int,
    lacking: list[str],
) -> None:
    """A market's strategy by its own hosts; a strategy without a market by those of each market.

    Here `paper` needs domains, which one of two hosts has: host 1, in market gold, or host 0.
    """
    needy = replace(STRATEGIES["paper"], needs=frozenset({Need.DOMAINS, Need.HISTORY}))
    monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), "paper", needy)
    two_markets(daemon, gold)
    daemon.frontend.bench.ok("one.host.update", described, 'MERKAT_POWER_DOMAIN="a"', 1)
    daemon.period(2)
    lacking = lacking if gold == "paper" else [["gold"], ["default"]][described]
    answer = json.loads(shell("strategy", "show", "paper", "--json").out)
    domains, history = answer["needs"]
    assert (domains["name"], domains["filled"], domains["lacking"]) == (
        "domains",
        not lacking,
        lacking,
    )
    assert (history["filled"], history["lacking"]) == (True, [])
    (row,) = [line for line in shell("strategy", "list").lines if line.startswith("paper")]
    assert ("domains" in row) == bool(lacking)


def test_show_has_units(asked: Shell) -> None:
    """A choice and a plain number have none."""
    answer = json.loads(asked.ok("strategy show tabu --json").out)
    units = {row["key"]: row["unit"] for row in answer["settings"]}
    assert (units["hold"], units["migrations_per_host"], units["objective"]) == (
        "seconds",
        "migrations",
        "",
    )
    heads = asked.ok("strategy show tabu --csv").lines[0]
    assert "UNIT" in heads
    assert "MEANING" in heads


@pytest.mark.parametrize("words", ["show", "show tabo", "list show", "", "list tabu"])
def test_wrong_words_have_exit_code_2(asked: Shell, words: str) -> None:
    """One line says what is expected."""
    asked.refused(f"strategy {words}", 2)


def test_a_saved_snapshot_is_decided_with_the_daemons_settings(
    daemon: Daemon, shell: Shell, tmp_path: Path
) -> None:
    """`--strategy` replaces them by one strategy with its defaults."""
    scheduler = daemon.frontend.scheduler
    market = MarketRules(strategy="pack", strategy_settings=PackSettings(fill_part=0.2))
    scheduler.adopt(replace(scheduler.world, markets=(market,)))
    for _ in range(8):
        daemon.frontend.vm(5.0, MEMORY=256)
    daemon.period()
    reason = "each is over its limit"
    for name in ("now.json", "now.npz"):
        file = str(tmp_path / name)
        shell.ok(f"snapshot save {file}")
        again = json.loads(shell.ok(f"plan --snapshot {file} --json").out)
        assert again["strategy"] == "pack"
        reasons = [row["reason"] for row in again["steps"] if row["kind"] == "deploy"]
        assert reason in reasons[-1], "by default, a host may be filled to 90 %"
        latest = daemon.frontend.scheduler.latest
        assert latest is not None
        deployed = {step.vm for step in latest.decided.decision.plan.of(Deploy)}
        assert {row["vm"] for row in again["steps"] if row["kind"] == "deploy"} == deployed
        other = json.loads(shell.ok(f"plan --snapshot {file} --strategy paper --json").out)
        assert other["strategy"] == "paper"
