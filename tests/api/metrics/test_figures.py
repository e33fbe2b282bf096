"""What Prometheus reads is what the periods came to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import LogLevel, capturedLogs

from merkatd import ledger
from merkatd.api.metrics.call_metrics import Calls
from merkatd.api.metrics.metric_registry import MetricRegistry
from merkatd.api.metrics.metrics_server import health
from merkatd.api.metrics.period_metrics import Balances, FairnessMetrics, fairness
from merkatd.base.clock import Inline
from merkatd.cluster import Migrate, VmState
from merkatd.cluster.snapshot_json import loads
from merkatd.currency import MICRO
from merkatd.database.database import Database
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.placement import strategy_named
from merkatd.scheduler.phases.announce import PeriodOutcome
from tests.api.metrics.reading import samples
from tests.scheduler.frontend import Frontend

ROOT = Path(__file__).parents[3]


def test_before_the_first_period_there_is_nothing_to_say_of_the_cloud() -> None:
    """But the counters begin with their zeros."""
    found = samples(MetricRegistry("1.2"))
    assert found["merkat_build_info", "1.2"] == 1
    assert found["merkat_periods_total", "failed"] == 0
    assert not [name for name, *_ in found if name.startswith(("merkat_cpu", "merkat_vms"))]


def test_a_period_is_told_in_base_units(frontend: Frontend) -> None:
    """Cores and bytes, by market; prices as they were announced."""
    figures = MetricRegistry("1", interval_s=lambda: 30.0, wall_s=lambda: 7.0)
    announcement = frontend.period()
    figures.announced(announcement)
    figures.ended(PeriodOutcome.DONE, 0.3)
    found = samples(figures)
    given = announcement.decided.decision.allocations.sum(axis=0)
    assert found["merkat_cpu_capacity_cores", "default"] == 12
    assert found["merkat_memory_capacity_bytes", "default"] == 3 * 8192 * 2**20
    assert found["merkat_cpu_allocated_cores", "default"] == pytest.approx(given[0] / 100)
    assert found["merkat_memory_allocated_bytes", "default"] == pytest.approx(given[1] * 2**20)
    assert found["merkat_bids_credits", "default", "cpu"] == 40
    assert found["merkat_price_credits", "default", "cpu"] == announcement.prices["default"]["cpu"]
    assert found["merkat_steps_planned_total", "deploy"] == 2
    assert found["merkat_steps_total", "sent"] == announcement.acted.sent
    assert found["merkat_hosts", "on"] == 3
    assert found["merkat_vms", "pending"] == 2
    assert found["merkat_periods_total", "done"] == 1
    assert found["merkat_period_duration_seconds_count",] == 1
    assert found["merkat_period_last_success_timestamp_seconds",] == 7.0
    assert found["merkat_period_interval_seconds",] == 30.0


def test_what_guests_really_used_stands_beside_what_they_were_given(frontend: Frontend) -> None:
    """Both burn all they get, and have used half a GiB each."""
    figures = MetricRegistry("1")
    announcement = frontend.periods(4)
    figures.announced(announcement)
    found = samples(figures)
    assert found["merkat_memory_used_bytes", "default"] == 2 * 512 * 2**20
    used, given = (found[f"merkat_cpu_{what}_cores", "default"] for what in ("used", "allocated"))
    assert used == pytest.approx(given, rel=0.02)
    assert used > 0


def test_balances_are_told_by_group_and_leave_nothing_out(frontend: Frontend) -> None:
    """Those of whom OpenNebula shows no group stand under none; all and the treasury are all."""
    ann = frontend.user("ann")
    frontend.vm(5.0, owner=ann)
    figures = MetricRegistry("1")
    database = frontend.scheduler.world.database
    Balances(database, figures.balances, figures.quarantined).announced(frontend.period())
    found = samples(figures)
    by_group = {key[1]: value for key, value in found.items() if key[0] == "merkat_balance_credits"}
    assert set(by_group) == {"oneadmin", "users"}
    assert all(value > 0 for value in by_group.values())
    books = {one.kind: one.balance for one in frontend.read(account_store.every)}
    in_all = sum(by_group.values()) + found["merkat_treasury_credits",]
    assert in_all * MICRO == pytest.approx(-books[AccountKind.ISSUANCE])


def test_periods_in_quarantine_are_counted(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A monitor alarms on the figure of periods that were not charged."""
    figures = MetricRegistry("1")
    balances = Balances(frontend.scheduler.world.database, figures.balances, figures.quarantined)
    balances.announced(frontend.period())
    assert samples(figures)["merkat_quarantined_periods",] == 0
    frontend.clock.advance(60)
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "settle_bill", lambda *_: float("damaged"))
        frontend.periods(1)
    balances.announced(frontend.periods(3))
    assert samples(figures)["merkat_quarantined_periods",] == 1


def test_a_daemon_that_ends_meanwhile_says_so_and_no_more(frontend: Frontend) -> None:
    """The books are closed already: what was told before stands."""
    figures = MetricRegistry("1")
    latest = frontend.period()
    database = frontend.scheduler.world.database
    assert isinstance(database, Database)
    balances = Balances(database, figures.balances, figures.quarantined)
    balances.announced(latest)
    before = samples(figures)
    frontend.result(ensureDeferred(database.close()))
    with capturedLogs() as logged:
        balances.announced(latest)
    assert samples(figures) == before
    assert [("closed" in str(one["error"]), one["log_level"]) for one in logged] == [
        (True, LogLevel.warn)
    ]


def test_calls_are_counted_by_what_became_of_them() -> None:
    """Also those that are not over yet."""
    calls, waiting = Calls(), list[Deferred[list[object]]]()

    class Way:
        async def call(self, method: str, *arguments: object) -> list[object]:
            del method, arguments
            waiting.append(Deferred())
            return await waiting[-1]

    way, figures = calls.through(Way()), MetricRegistry("1", {"opennebula": calls})
    asked = [ensureDeferred(way.call("one.vm.info", number)) for number in range(3)]
    assert samples(figures)["merkat_calls_in_flight", "opennebula"] == 3
    waiting[0].callback([True, "", 0])
    waiting[1].errback(OSError("gone"))
    gone: list[object] = []
    asked[1].addErrback(gone.append)
    found = samples(figures)
    assert found["merkat_calls_total", "answered", "opennebula"] == 1
    assert found["merkat_calls_total", "failed", "opennebula"] == 1
    assert found["merkat_calls_in_flight", "opennebula"] == 1
    assert asked[0].result == [True, "", 0]
    assert len(gone) == 1


def test_what_was_sent_is_confirmed_by_what_is_seen(frontend: Frontend) -> None:
    """In the next period; every state has a figure, also those that nobody is in."""
    figures = MetricRegistry("1")
    for _ in range(2):
        figures.announced(frontend.period())
        frontend.clock.advance(60)
    found = samples(figures)
    assert found["merkat_steps_total", "confirmed"] == 2
    assert found["merkat_vms", "running"] == 2
    assert {labels[0] for name, *labels in found if name == "merkat_vms"} == {
        state.name.lower() for state in VmState
    }


def test_labels_are_bounded(frontend: Frontend) -> None:
    """However many VMs and owners there are, no figure is one of theirs; groups have theirs."""
    figures = MetricRegistry("1")
    frontend.vm(owner=frontend.user("first"))
    figures.announced(frontend.period())
    before = len(samples(figures))
    for number in range(20):
        frontend.vm(owner=frontend.user(f"user{number}"))
    frontend.clock.advance(60)
    figures.announced(frontend.period())
    assert len(samples(figures)) == before


def test_groups_have_what_their_vms_have(frontend: Frontend) -> None:
    """By name; all groups together have what all markets gave, and pay its price."""
    frontend.vm(5.0, owner=frontend.user("ann"))
    figures = MetricRegistry("1")
    announcement = frontend.period()
    figures.announced(announcement)
    found = samples(figures)
    for what in ("cpu_allocated_cores", "memory_allocated_bytes"):
        parts = [found[f"merkat_group_{what}", group] for group in ("oneadmin", "users")]
        assert min(parts) > 0
        assert sum(parts) == pytest.approx(found[f"merkat_{what}", "default"])
    assert found["merkat_group_bids_credits", "users"] == 6
    assert found["merkat_group_vms", "users", "pending"] == 1
    assert found["merkat_group_vms", "oneadmin", "pending"] == 2
    given, prices = announcement.decided.decision.allocations, announcement.prices["default"]
    costs = [found["merkat_group_cost_credits", group] for group in ("oneadmin", "users")]
    assert sum(costs) == pytest.approx((given.sum(axis=0) * [*prices.values()]).sum())


def test_errors_are_those_of_the_places_that_were_seen(frontend: Frontend) -> None:
    """Two VMs on three hosts have all they would have on one great host."""
    figures = MetricRegistry("1")
    FairnessMetrics(Inline(), figures.fair).announced(frontend.periods(3))
    found = samples(figures)
    for name in ("allocation_error_ratio", "allocation_error_largest_ratio", "shortfall_credits"):
        assert found[f"merkat_{name}", "default"] == pytest.approx(0.0)


def test_a_crowded_host_is_unfair() -> None:
    """The cloud of the manual has two VMs to move: moved, all of its figures are better."""
    before = loads((ROOT / "docs/example.json").read_text())
    entry = strategy_named("tabu")
    decided = entry.decide(before, np.random.default_rng(1), {}, entry.settings)
    steps = decided.plan.of(Migrate)
    host = before.vms.host.copy()
    for step in steps:
        host[before.vms.id == step.vm] = np.flatnonzero(before.hosts.id == step.host)
    after = replace(before, vms=replace(before.vms, host=host))
    (crowded,), (even,) = fairness(before), fairness(after)
    assert crowded.mean_error > even.mean_error
    assert crowded.largest_error >= crowded.mean_error
    assert crowded.shortfall > even.shortfall


def test_a_scrape_asks_nobody(frontend: Frontend) -> None:
    """Neither OpenNebula nor the database: it reads what the period left."""
    figures = MetricRegistry("1", {"opennebula": Calls()})
    figures.announced(frontend.period())

    async def never(*_: object) -> Any:
        raise AssertionError("a scrape asked")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontend.transport, "call", never)
        patch.setattr(frontend.engine, "connect", never)
        patch.setattr(frontend.engine, "begin", never)
        assert len(samples(figures)) > 60


def test_servers_and_queues_are_those_that_there_are(frontend: Frontend) -> None:
    """A database counts calls that it answered, calls that failed, and calls that wait."""
    database = frontend.scheduler.world.database
    assert isinstance(database, Database)
    frontend.period()
    figures = MetricRegistry("1", {"database": database})
    before = samples(figures)["merkat_calls_total", "answered", "database"]
    assert before > 0

    def refused(_: object) -> None:
        raise ValueError("on purpose")

    def failed(_: object) -> None:
        raise sa.exc.IntegrityError("on purpose", None, Exception("on purpose"))

    with pytest.raises(ValueError, match="on purpose"):
        frontend.result(ensureDeferred(database.run(refused)))
    with pytest.raises(sa.exc.IntegrityError, match="on purpose"):
        frontend.result(ensureDeferred(database.run(failed)))
    found = samples(figures)
    assert found["merkat_calls_total", "failed", "database"] == 1
    assert found["merkat_calls_total", "answered", "database"] == before + 1
    assert found["merkat_queue_depth", "database"] == 0


def test_what_the_daemon_does_is_told_at_each_scrape() -> None:
    """As it is then."""
    figures, paused = MetricRegistry("1"), False
    figures.states({"paused": lambda: paused, "acting": lambda: not paused})
    assert samples(figures)["merkat_state", "acting"] == 1
    paused = True
    found = samples(figures)
    assert (found["merkat_state", "acting"], found["merkat_state", "paused"]) == (0, 1)


@pytest.mark.parametrize(
    ("failures", "standby", "paused", "well", "why"),
    [
        (0, None, False, True, "acting"),
        (0, None, True, True, "paused"),
        (2, None, False, True, "acting"),
        (0, "another acts", False, True, "standing by: another acts"),
        (3, None, False, False, "the last 3 periods failed; the log says why"),
    ],
)
def test_whoever_waits_is_well(
    failures: int, standby: str | None, paused: bool, well: bool, why: str
) -> None:
    """Whoever fails again and again is not."""
    found = health(failures, standby, paused=paused)
    assert (found.well, found.why) == (well, why)
