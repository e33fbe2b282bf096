"""The columns over time say what happened."""

import csv
from pathlib import Path

import numpy as np
import pytest

from merkatd.cluster import FailureRates
from merkatd.placement.contract import Pricing
from merkatd.placement.registry import STRATEGIES
from simulator.baselines.placement.first_fit import FirstFit
from simulator.kernel.data_center import (
    DataCenter,
    KernelRhythm,
    Tariff,
    equal_domains,
    tree_of_hosts,
)
from simulator.kernel.event_queue import EventKind
from simulator.kernel.kernel_deciders import PlacerDecider, StrategyDecider
from simulator.kernel.kernel_run import KernelRun, fits_somewhere
from simulator.kernel.kernel_state import GuestPhase
from simulator.kernel.outcome_columns import KernelOutcome
from simulator.kernel.unit_outages import Outages
from simulator.model.load_triggers import LoadTriggers, TriggerLimits
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.vm_requests import DAY_S, VmRequests
from tests.simulator.kernel.small_centers import random_center, random_requests, requests

AT_ONCE = OperationCosts(boot_s=0.0)
HOUR_S = 3600.0


def outcome_of(asked: VmRequests, span_s: float, **parts: object) -> KernelOutcome:
    """Run two hosts of 100 units and 1,000 MiB under first fit, monitored each hour."""
    given = {
        "hosts": tree_of_hosts((2,), [100.0, 1000.0], idle_watts=100.0, full_watts=300.0),
        "costs": AT_ONCE,
        "rhythm": KernelRhythm(period_s=60.0, monitor_s=HOUR_S),
        **parts,
    }
    center = DataCenter(**given)  # type: ignore[arg-type]
    return KernelRun(center, asked, PlacerDecider(FirstFit()), span_s=span_s).run()


def test_utilisation_imbalance_and_power_by_hand() -> None:
    """Paper IV, Eq. 16 and 18, over the one active host; power is linear in the CPU load."""
    asked = requests([0.0], np.inf, [50.0, 200.0])
    columns = outcome_of(asked, 2.5 * HOUR_S).columns
    assert columns["at_s"].tolist() == [0.0, HOUR_S, 2 * HOUR_S, 2.5 * HOUR_S]
    assert columns["active_hosts"].tolist() == [0.0, 1.0, 1.0, 1.0]
    assert columns["utilisation_cpu"].tolist() == [0.0, 0.5, 0.5, 0.5]
    assert columns["utilisation_memory"].tolist() == [0.0, 0.2, 0.2, 0.2]
    assert columns["reserved_memory"].tolist() == [0.0, 0.2, 0.2, 0.2]
    assert columns["imbalance"] == pytest.approx([0.0, 0.3, 0.3, 0.3])
    assert columns["watts"].tolist() == [200.0, 300.0, 300.0, 300.0]
    assert columns["energy_kwh"] == pytest.approx([0.0, 0.2, 0.5, 0.65])


def test_hosts_that_sleep_or_have_failed() -> None:
    """A host that sleeps draws little, one that has failed none, and one that wakes as if idle."""
    hosts = tree_of_hosts((4,), [100.0, 1000.0], idle_watts=100.0, full_watts=300.0)
    center = DataCenter(hosts=hosts, asleep_watts=7.0, rhythm=KernelRhythm(monitor_s=HOUR_S))
    run = KernelRun(
        center, requests([], 1.0, [1.0, 1.0]), PlacerDecider(FirstFit()), span_s=2 * HOUR_S
    )
    run.queue.prepare(EventKind.UNIT_FAILS, np.array([10.0]), np.array([2]))
    run.step()
    for host in (0, 1):
        assert run.operations.sleep(host)
    assert run.operations.wake(1)
    columns = run.run().columns
    assert columns["watts"].tolist() == [400.0, 207.0, 207.0]
    assert columns["asleep_hosts"].tolist() == [0.0, 1.0, 1.0]
    assert columns["failed_hosts"].tolist() == [0.0, 1.0, 1.0]


def test_a_migrating_guest_uses_its_source() -> None:
    """Until it has arrived; it has room on both hosts."""
    slow = OperationCosts(boot_s=0.0, migrate_s_per_mib=2.0 * HOUR_S / 200.0)
    hosts = tree_of_hosts((2,), [100.0, 1000.0])
    center = DataCenter(hosts=hosts, costs=slow, rhythm=KernelRhythm(monitor_s=HOUR_S))
    run = KernelRun(
        center,
        requests([0.0], np.inf, [50.0, 200.0]),
        PlacerDecider(FirstFit()),
        span_s=5 * HOUR_S,
    )
    while run.state.phase[0] != GuestPhase.RUNNING:
        run.step()
    assert run.operations.migrate(0, 1, live=True)
    used = []
    while (batch := run.step()) is not None:
        if batch.kind is EventKind.MONITORING:
            used.append(run.monitoring.used[:, 0].tolist())
    assert used == [[50.0, 0.0], [0.0, 50.0], [0.0, 50.0], [0.0, 50.0]]


def test_services_follow_the_day() -> None:
    """Paper III, Eq. 11 and 12: memory follows CPU, both around half of the size."""
    asked = requests([0.0], np.inf, [80.0, 400.0], level=[0.5], swing=[0.8], phase=[0.25])
    columns = outcome_of(asked, 23.5 * HOUR_S).columns
    at = columns["at_s"][1:]
    expected = 0.5 * (1 + 0.8 * np.sin(2 * np.pi * at / 86_400.0 - 2 * np.pi * 0.25))
    assert columns["utilisation_cpu"][1:] == pytest.approx(0.8 * expected)
    assert columns["utilisation_memory"][1:] == pytest.approx(0.4 * expected)
    assert DAY_S == 86_400.0


def test_violations_and_costs_add_up() -> None:
    """Two VMs whose floors fit and whose demands do not: both lack, for as long as it lasts."""
    size = [80.0, 300.0]
    asked = requests([0.0, 0.0], 3.5 * HOUR_S, size, floor=np.tile([40.0, 300.0], (2, 1)))
    tariff = Tariff(energy_kwh=2.0, violation_vm_h=10.0)
    outcome = outcome_of(asked, 6 * HOUR_S, tariff=tariff)
    columns = outcome.columns
    assert columns["overloaded_hosts"].tolist() == [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert columns["sla_violations_vm_h"].tolist() == [0.0, 0.0, 2.0, 4.0, 6.0, 6.0, 6.0]
    assert columns["cost"] == pytest.approx(
        2.0 * columns["energy_kwh"] + 10.0 * columns["sla_violations_vm_h"]
    )
    assert outcome.last("cost") > 60.0
    assert outcome.mean("overloaded_hosts") == pytest.approx(3 / 7)


def test_the_csv_has_the_columns(tmp_path: Path) -> None:
    """A line for each monitoring, with the names in the first line."""
    center = random_center(1)
    run = KernelRun(
        center, random_requests(1, 15), PlacerDecider(FirstFit()), span_s=3600.0, seed=1
    )
    outcome = run.run()
    outcome.write_csv(tmp_path / "outcome.csv")
    with (tmp_path / "outcome.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 31
    assert list(rows[0]) == list(outcome.columns)
    for name, column in outcome.columns.items():
        assert [float(row[name]) for row in rows] == pytest.approx(column.tolist())
    counts = sum(outcome.columns[name] for name in ("running", "pending", "ended", "rejected"))
    assert (np.diff(counts) >= 0).sum() > 0
    totals = ("deploys", "restarts", "refused", "energy_kwh", "cost", "sla_violations_vm_h")
    assert all((np.diff(outcome.columns[name]) >= 0).all() for name in totals)


def test_only_large_enough_hosts_count() -> None:
    """A VM fits if one host has enough of everything; two hosts with half each are none."""
    capacity = np.array([[100.0, 10.0], [10.0, 100.0], [50.0, 50.0], [40.0, 40.0]])
    floor = np.array([[100.0, 10.0], [60.0, 60.0], [50.0, 50.0], [10.0, 100.5], [0.0, 0.0]])
    assert fits_somewhere(floor, capacity).tolist() == [True, False, True, False, True]
    assert not fits_somewhere(floor, capacity[:0]).any()


def test_a_host_without_a_domain_depends_on_none() -> None:
    """And a redundant domain keeps a host connected."""
    pairs = np.array([[0, -1], [0, 1], [-1, -1], [1, 0]])
    outages = Outages(tree_of_hosts((4,), [1.0], domains={"network": pairs}))
    rows, network = np.arange(4), outages.begin["network"]
    outages.failed[network] = True
    assert outages.cut_off(rows).tolist() == [True, False, False, False]
    assert outages.affected(np.array([network])).tolist() == [0, 1, 3]
    outages.failed[network + 1] = True
    assert outages.cut_off(rows).tolist() == [True, True, False, True]
    outages.failed[2] = True
    assert outages.cut_off(rows).tolist() == [True, True, True, True]
    assert outages.affected(np.array([2])).tolist() == [2]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"migrating_part": 0.0}, r"migrating_part: must be above 0 and at most 1 \(got 0"),
        ({"repair_s": {"disk": 1.0}}, "repair_s: unknown kind 'disk', expected one of host, power"),
        (
            {"rates": FailureRates(kind=("network",), per_year=np.array([1.0]))},
            "rates: unknown kind 'network', expected one of host, power",
        ),
    ],
)
def test_a_wrong_data_centre_is_reported(parts: dict[str, object], message: str) -> None:
    """The message names what is wrong and what is accepted."""
    hosts = tree_of_hosts((2,), [1.0], domains={"power": equal_domains(2, 1)})
    with pytest.raises(ValueError, match=message):
        DataCenter(hosts=hosts, **parts)  # type: ignore[arg-type]


def test_wrong_numbers_are_reported() -> None:
    """Of rhythms, trees, domains and runs."""
    with pytest.raises(ValueError, match=r"period_s: must be greater than 0 \(got 0"):
        KernelRhythm(period_s=0.0)
    with pytest.raises(ValueError, match=r"branches: must be numbers of at least 1 \(got \(2, 0\)"):
        tree_of_hosts((2, 0), [1.0])
    with pytest.raises(ValueError, match=r"domains: must be from 1 to 3 \(got 4\)"):
        equal_domains(3, 4)
    with pytest.raises(ValueError, match=r"span_s: must be greater than 0 and finite \(got inf\)"):
        outcome_of(requests([0.0], 1.0, [1.0, 1.0]), np.inf)


def test_profit_is_what_running_vms_pay_less_all_costs() -> None:
    """Paper I, Eq. 1: two cores and 2 GiB that two monitorings see pay for two hours."""
    hosts = tree_of_hosts((2,), [400.0, 4096.0], idle_watts=100.0, full_watts=300.0)
    asked = requests([0.0], 2.5 * HOUR_S, [200.0, 2048.0])
    tariff = Tariff(energy_kwh=1.0, fixed_h=0.5, core_h=3.0, memory_gib_h=0.25)
    columns = outcome_of(asked, 5 * HOUR_S, hosts=hosts, tariff=tariff).columns
    assert columns["revenue"].tolist() == [0.0, 0.0, 6.5, 13.0, 13.0, 13.0]
    spent = columns["energy_kwh"] + 0.5 * columns["at_s"] / HOUR_S
    assert columns["cost"] == pytest.approx(spent)
    assert columns["profit"] == pytest.approx(columns["revenue"] - spent)
    assert columns["profit"][0] == 0.0
    assert columns["profit"][-1] > 5.0


def test_triggers_count_loads_that_last() -> None:
    """A host triggers once it is over or under the limits for long enough, and again later."""
    triggers = LoadTriggers(np.full((2, 2), 100.0), TriggerLimits(monitorings=3))
    seen = []
    for cpu, memory in [
        (95, 0),
        (95, 0),
        (95, 0),
        (95, 0),
        (90, 0),
        (5, 5),
        (5, 5),
        (5, 30),
        (5, 5),
    ]:
        triggers.count(np.array([[cpu, memory], [0.0, 0.0]]), np.array([True, False]))
        seen.append((triggers.overloads, triggers.underloads, triggers.unresolved))
    assert seen == [
        *[(0, 0, 0), (0, 0, 0), (1, 0, 1), (1, 0, 1), (1, 0, 0)],
        *[(1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0)],
    ]
    for _ in range(2):
        triggers.count(np.array([[0.0, 99.0], [50.0, 50.0]]), np.array([True, True]))
        triggers.count(np.array([[0.0, 10.0], [50.0, 50.0]]), np.array([True, True]))
    assert triggers.overloads == 1
    for _ in range(3):
        triggers.count(np.array([[0.0, 10.0], [50.0, 50.0]]), np.array([True, True]))
    assert (triggers.overloads, triggers.underloads, triggers.unresolved) == (1, 1, 1)
    with pytest.raises(ValueError, match="under_part: must be from 0 to less than over_part"):
        TriggerLimits(under_part=0.9)


def test_triggers_and_prices_are_columns() -> None:
    """One VM on a large host underloads it; a market's last prices are in force until the next."""
    asked = requests([0.0], np.inf, [10.0, 100.0], bid=np.array([[5.0, 1.0]]))
    columns = outcome_of(asked, 12.5 * HOUR_S).columns
    assert columns["underload_triggers"].tolist() == [0.0] * 10 + [1.0] * 4
    assert columns["triggers"].tolist() == columns["underload_triggers"].tolist()
    assert columns["unresolved_triggers"][-1] == 1.0
    assert columns["price_cpu"].tolist() == [0.0] * 14
    decider = StrategyDecider(STRATEGIES["pack"], pricing=Pricing(reserve={"cpu": 0.25}))
    center = DataCenter(hosts=tree_of_hosts((2,), [100.0, 1000.0]), costs=AT_ONCE)
    market = KernelRun(center, asked, decider, span_s=300.0).run().columns
    assert market["price_cpu"].tolist() == [0.0, *[0.25] * 5]
    assert market["price_memory"].tolist() == [0.0] * 6
