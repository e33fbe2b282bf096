"""Prometheus reads the results of the periods."""

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
from merkatd.database.scheduler import limit_order_store
from merkatd.placement import strategy_named
from merkatd.scheduler.phases.announce import PeriodOutcome
from tests.api.metrics.reading import samples
from tests.scheduler.frontend import Frontend

ROOT = Path(__file__).parents[3]


def test_before_the_first_period_no_metric_describes_the_cloud() -> None:
    """Counters start at zero."""
    values = samples(MetricRegistry("1.2"))
    assert values["merkat_build_info", "1.2"] == 1
    assert values["merkat_periods_total", "failed"] == 0
    assert not [name for name, *_ in values if name.startswith(("merkat_cpu", "merkat_vms"))]


def test_a_period_is_exported_in_base_units(frontend: Frontend) -> None:
    """These are cores and bytes by market; prices are as announced."""
    figures = MetricRegistry("1", interval_s=lambda: 30.0, wall_s=lambda: 7.0)
    announcement = frontend.period()
    figures.announced(announcement)
    figures.ended(PeriodOutcome.DONE, 0.3)
    values = samples(figures)
    given = announcement.decided.decision.allocations.sum(axis=0)
    assert values["merkat_cpu_capacity_cores", "default"] == 12
    assert values["merkat_memory_capacity_bytes", "default"] == 3 * 8192 * 2**20
    assert values["merkat_cpu_allocated_cores", "default"] == pytest.approx(given[0] / 100)
    assert values["merkat_memory_allocated_bytes", "default"] == pytest.approx(given[1] * 2**20)
    assert values["merkat_bids_credits", "default", "cpu"] == 40
    assert values["merkat_price_credits", "default", "cpu"] == announcement.prices["default"]["cpu"]
    assert values["merkat_steps_planned_total", "deploy"] == 2
    assert values["merkat_steps_total", "sent"] == announcement.acted.sent
    assert values["merkat_hosts", "on"] == 3
    assert values["merkat_vms", "pending"] == 2
    assert values["merkat_periods_total", "done"] == 1
    assert values["merkat_period_duration_seconds_count",] == 1
    assert values["merkat_period_last_success_timestamp_seconds",] == 7.0
    assert values["merkat_period_interval_seconds",] == 30.0


def test_limit_orders_are_counted_by_their_state(frontend: Frontend) -> None:
    """One runs, and one needs more memory than any host has."""
    first, second = frontend.vm(1.0), frontend.vm(2.0)
    large = frontend.vm(50.0, MEMORY=20_000)
    frontend.periods(2)
    at_s = frontend.clock.seconds()
    terms: dict[str, Any] = {"owner": 0, "least_run_s": 0.0, "factor": 1.0, "stated_s": at_s}
    for vms, limit in (((first, second), 500.0), ((large,), 500.0)):
        frontend.read(lambda c, v=vms, x=limit: limit_order_store.add(c, vms=v, limit=x, **terms))
    figures = MetricRegistry("1")
    announcement = frontend.period()
    figures.announced(announcement)
    values = samples(figures)
    assert values["merkat_limit_orders", "runs"] == 1
    assert values["merkat_limit_orders", "waits"] == 1
    assert values["merkat_limit_orders", "idle"] == 0
    outcomes = announcement.decided.decision.orders.values()
    assert values["merkat_limit_orders_cost_credits",] == sum(o.cost or 0.0 for o in outcomes)


def test_use_by_guests_is_exported_beside_allocations(frontend: Frontend) -> None:
    """Both guests use all CPU they get, and half a GiB each."""
    figures = MetricRegistry("1")
    announcement = frontend.periods(4)
    figures.announced(announcement)
    values = samples(figures)
    assert values["merkat_memory_used_bytes", "default"] == 2 * 512 * 2**20
    used, given = (values[f"merkat_cpu_{what}_cores", "default"] for what in ("used", "allocated"))
    assert used == pytest.approx(given, rel=0.02)
    assert used > 0


def test_balances_are_exported_by_group_and_are_complete(frontend: Frontend) -> None:
    """Owners without a group appear under none; all groups and the treasury add up."""
    ann = frontend.user("ann")
    frontend.vm(5.0, owner=ann)
    figures = MetricRegistry("1")
    database = frontend.scheduler.world.database
    Balances(database, figures.balances, figures.quarantined).announced(frontend.period())
    values = samples(figures)
    by_group = {
        key[1]: value for key, value in values.items() if key[0] == "merkat_balance_credits"
    }
    assert set(by_group) == {"oneadmin", "users"}
    assert all(value > 0 for value in by_group.values())
    books = {account.kind: account.balance for account in frontend.read(account_store.every)}
    in_all = sum(by_group.values()) + values["merkat_treasury_credits",]
    assert in_all * MICRO == pytest.approx(-books[AccountKind.ISSUANCE])


def test_quarantined_periods_are_counted(
    frontend: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A monitor can raise an alarm on periods that were not charged."""
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


def test_a_daemon_that_stops_meanwhile_logs_one_warning(frontend: Frontend) -> None:
    """The database is closed already: the earlier values stay."""
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
    assert [("closed" in str(event["error"]), event["log_level"]) for event in logged] == [
        (True, LogLevel.warn)
    ]


def test_calls_are_counted_by_their_result() -> None:
    """Calls in flight are counted too."""
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
    values = samples(figures)
    assert values["merkat_calls_total", "answered", "opennebula"] == 1
    assert values["merkat_calls_total", "failed", "opennebula"] == 1
    assert values["merkat_calls_in_flight", "opennebula"] == 1
    assert asked[0].result == [True, "", 0]
    assert len(gone) == 1


def test_sent_steps_are_confirmed_by_observation(frontend: Frontend) -> None:
    """They are confirmed in the next period; every VM state has a metric."""
    figures = MetricRegistry("1")
    for _ in range(2):
        figures.announced(frontend.period())
        frontend.clock.advance(60)
    values = samples(figures)
    assert values["merkat_steps_total", "confirmed"] == 2
    assert values["merkat_vms", "running"] == 2
    assert {labels[0] for name, *labels in values if name == "merkat_vms"} == {
        state.name.lower() for state in VmState
    }


def test_labels_are_bounded(frontend: Frontend) -> None:
    """No metric belongs to a VM or owner; groups have metrics."""
    figures = MetricRegistry("1")
    frontend.vm(owner=frontend.user("first"))
    figures.announced(frontend.period())
    before = len(samples(figures))
    for number in range(20):
        frontend.vm(owner=frontend.user(f"user{number}"))
    frontend.clock.advance(60)
    figures.announced(frontend.period())
    assert len(samples(figures)) == before


def test_groups_have_the_sums_of_their_vms(frontend: Frontend) -> None:
    """All groups together have what all markets allocate, and pay its price."""
    frontend.vm(5.0, owner=frontend.user("ann"))
    figures = MetricRegistry("1")
    announcement = frontend.period()
    figures.announced(announcement)
    values = samples(figures)
    for what in ("cpu_allocated_cores", "memory_allocated_bytes"):
        parts = [values[f"merkat_group_{what}", group] for group in ("oneadmin", "users")]
        assert min(parts) > 0
        assert sum(parts) == pytest.approx(values[f"merkat_{what}", "default"])
    assert values["merkat_group_bids_credits", "users"] == 6
    assert values["merkat_group_vms", "users", "pending"] == 1
    assert values["merkat_group_vms", "oneadmin", "pending"] == 2
    given, prices = announcement.decided.decision.allocations, announcement.prices["default"]
    costs = [values["merkat_group_cost_credits", group] for group in ("oneadmin", "users")]
    assert sum(costs) == pytest.approx((given.sum(axis=0) * [*prices.values()]).sum())


def test_allocation_errors_are_those_of_the_observed_placement(frontend: Frontend) -> None:
    """Two VMs on three hosts get all that they would get on one large host."""
    figures = MetricRegistry("1")
    FairnessMetrics(Inline(), figures.fair).announced(frontend.periods(3))
    values = samples(figures)
    for name in ("allocation_error_ratio", "allocation_error_largest_ratio", "shortfall_credits"):
        assert values[f"merkat_{name}", "default"] == pytest.approx(0.0)


def test_a_crowded_host_is_unfair() -> None:
    """The manual's cloud has two VMs to migrate: afterwards all of its metrics are better."""
    before = loads((ROOT / "docs/example.json").read_text())
    entry = strategy_named("tabu")
    decided = entry.decide(before, entry.defaults)
    steps = decided.plan.of(Migrate)
    host = before.vms.host.copy()
    for step in steps:
        host[before.vms.id == step.vm] = np.flatnonzero(before.hosts.id == step.host)
    after = replace(before, vms=replace(before.vms, host=host))
    (crowded,), (even,) = fairness(before), fairness(after)
    assert crowded.mean_error > even.mean_error
    assert crowded.largest_error >= crowded.mean_error
    assert crowded.shortfall > even.shortfall


def test_a_scrape_makes_no_call(frontend: Frontend) -> None:
    """It calls neither OpenNebula nor the database: it reads the last period's results."""
    figures = MetricRegistry("1", {"opennebula": Calls()})
    figures.announced(frontend.period())

    async def never(*_: object) -> Any:
        raise AssertionError("a scrape asked")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontend.transport, "call", never)
        patch.setattr(frontend.engine, "connect", never)
        assert len(samples(figures)) > 60


def test_only_existing_servers_and_queues_have_metrics(frontend: Frontend) -> None:
    """A database counts answered calls, failed calls and waiting calls."""
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
    values = samples(figures)
    assert values["merkat_calls_total", "failed", "database"] == 1
    assert values["merkat_calls_total", "answered", "database"] == before + 1
    assert values["merkat_queue_depth", "database"] == 0


def test_the_daemons_state_is_read_at_each_scrape() -> None:
    """The value is the present one."""
    figures, paused = MetricRegistry("1"), False
    figures.states({"paused": lambda: paused, "acting": lambda: not paused})
    assert samples(figures)["merkat_state", "acting"] == 1
    paused = True
    values = samples(figures)
    assert (values["merkat_state", "acting"], values["merkat_state", "paused"]) == (0, 1)


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
def test_a_waiting_daemon_is_healthy(
    failures: int, standby: str | None, paused: bool, well: bool, why: str
) -> None:
    """A daemon that fails repeatedly is not."""
    state = health(failures, standby, paused=paused)
    assert (state.well, state.why) == (well, why)
