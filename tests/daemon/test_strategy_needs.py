"""A daemon does not start if the cloud lacks what a market's strategy needs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.logger import LogLevel, capturedLogs, formatEvent

from merkatd import cli
from merkatd.daemon.errors import StartError
from merkatd.daemon.strategy_needs import refuse_unfilled_needs
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.placement import snapshot_needs
from merkatd.placement.contract import Need
from merkatd.placement.registry import DEFAULT, STRATEGIES
from merkatd.scheduler.base.settings import MarketRules
from tests.daemon.processes import Program
from tests.placement.needy_strategy import needy
from tests.scheduler.frontend import Frontend

ENTRIES = cast("dict[str, Any]", STRATEGIES)
NEEDS = frozenset({Need.DOMAINS, Need.TOPOLOGY, Need.HISTORY, Need.SERVICES})


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Frontend]:
    """Return a cloud of two hosts in two markets; one has a strategy with needs."""
    monkeypatch.setitem(ENTRIES, "needy", needy(NEEDS))
    gold = MarketRules(name="gold", strategy="needy", cluster_names=frozenset({"gold"}))
    frontend = Frontend(hosts=2, markets=(gold, MarketRules()))
    cluster = frontend.bench.ok("one.cluster.allocate", "gold")
    frontend.bench.ok("one.cluster.adddatastore", cluster, 0)
    frontend.bench.ok("one.cluster.addhost", cluster, 1)
    for host in (0, 1):
        frontend.bench.ok("one.host.update", host, 'NOTE="not described"', 0)
    yield frontend
    frontend.close()


def check(frontend: Frontend) -> None:
    """Check the cloud as at the start of the daemon."""
    frontend.result(ensureDeferred(refuse_unfilled_needs(frontend.scheduler.world)))


def test_the_message_names_the_market_the_part_and_the_attribute(site: Frontend) -> None:
    """The history is no reason: the daemon measures it. Hosts of other markets do not count."""
    site.bench.ok("one.host.update", 0, 'MERKAT_POWER_DOMAIN="a"', 1)
    with pytest.raises(StartError) as raised:
        check(site)
    assert str(raised.value) == (
        "market gold: strategy needy needs parts that the cloud lacks: domains"
        " (MERKAT_NETWORK_DOMAIN or MERKAT_POWER_DOMAIN in the templates of the hosts)"
    )
    site.bench.ok("one.host.update", 1, 'MERKAT_POWER_DOMAIN="b"', 1)
    check(site)


def test_a_part_that_goes_missing_later_stops_its_market_alone(site: Frontend) -> None:
    """Its VMs wait, and are placed once the part is back; other markets go on."""
    there, here = site.vm(SCHED_REQUIREMENTS="ID = 1"), site.vm(SCHED_REQUIREMENTS="ID = 0")
    latest = site.periods(2)
    assert "lacks: domains" in latest.decided.decision.failed["gold"]
    assert (site.state(there), site.state(here)) == ("PENDING", "RUNNING")
    site.bench.ok("one.host.update", 1, 'MERKAT_NETWORK_DOMAIN="b"', 1)
    latest = site.periods(2)
    assert latest.decided.decision.failed == {}
    assert site.state(there) == "RUNNING"


def test_what_is_missing_for_some_periods_costs_no_memory(site: Frontend) -> None:
    """The log says it once, in words. The strategy goes on with what it remembered."""
    site.bench.ok("one.host.update", 1, 'MERKAT_POWER_DOMAIN="b"', 1)
    latest = site.periods(3)
    before = latest.decided.decision.memory["gold"]["periods"]
    assert before >= 2
    site.bench.ok("one.host.update", 1, 'NOTE="not described"', 0)
    with capturedLogs() as events:
        lacking = site.periods(3).decided.decision
    assert lacking.failed["gold"].startswith("strategy needy needs parts that the cloud lacks:")
    assert lacking.memory["gold"] == {"periods": before}
    (event,) = [each for each in events if each["log_level"] >= LogLevel.error]
    assert formatEvent(event) == (
        "Nothing is placed or moved in market gold: strategy needy needs parts that the cloud"
        " lacks: domains (MERKAT_NETWORK_DOMAIN or MERKAT_POWER_DOMAIN in the templates of the"
        " hosts)"
    )
    assert "log_failure" not in event
    site.bench.ok("one.host.update", 1, 'MERKAT_POWER_DOMAIN="b"', 1)
    after = site.periods(1).decided.decision
    assert after.failed == {}
    assert after.memory["gold"] == {"periods": before + 1}


def test_a_cloud_that_does_not_answer_is_no_reason(site: Frontend) -> None:
    """The daemon starts and waits for it, as always."""
    site.cloud.faults.add(Fault(FaultKind.LOSE))
    check(site)


def test_a_market_without_hosts_lacks_nothing(site: Frontend) -> None:
    """Hosts may come later; then the periods check them."""
    site.bench.ok("one.host.delete", 1)
    check(site)


def without_topology(words: Sequence[str]) -> int:
    """Run a command of merkatd in a cloud without a topology, in a process of its own."""
    ENTRIES[DEFAULT] = replace(needy({Need.TOPOLOGY}, DEFAULT), name=DEFAULT)
    filled: Mapping[Need, Any] = snapshot_needs._FILLED
    cast("dict[Need, Any]", filled)[Need.TOPOLOGY] = lambda _snapshot: False
    return cli.main(words)


def with_all_needs(words: Sequence[str]) -> int:
    """Run a command of merkatd whose default strategy reads all that it needs."""
    ENTRIES[DEFAULT] = replace(needy(plain=DEFAULT), name=DEFAULT)
    return cli.main(words)


def test_the_daemon_ends_with_the_message(tmp_path: Path) -> None:
    """`merkatd run` writes it and has a failing exit code."""
    file = tmp_path / "merkatd.toml"
    file.write_text(f'[daemon]\nstate_directory = "{tmp_path}"\n[cloud]\nhosts = 1\n')
    daemon = Program(tmp_path / "log", "run", "--config", str(file), main=without_topology)
    try:
        assert daemon.end() != 0
        assert "strategy tabu needs parts that the cloud lacks: topology" in daemon.output()
        assert "Traceback" not in daemon.output()
    finally:
        daemon.kill()


def test_the_daemon_runs_a_strategy_that_reads_what_it_needs(tmp_path: Path) -> None:
    """Its hosts have domains; the rest is there at any time. The warm-up has all of it."""
    file = tmp_path / "merkatd.toml"
    file.write_text(f'[daemon]\nstate_directory = "{tmp_path}"\n[cloud]\nhosts = 2\n')
    daemon = Program(tmp_path / "log", "run", "--config", str(file), main=with_all_needs)
    try:
        daemon.until_output("Period ")
        output = daemon.output()
        assert "Traceback" not in output
        assert "nothing is placed" not in output
    finally:
        daemon.kill()
