"""Changing one part of a simulation leaves the random numbers of all others as they are."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import FailureRates
from simulator.baselines.placement.first_fit import FirstFit
from simulator.baselines.placement.random_fit import RandomFit
from simulator.kernel.data_center import DataCenter
from simulator.kernel.event_queue import EventKind
from simulator.kernel.kernel_deciders import KernelDecider, PlacerDecider
from simulator.kernel.kernel_run import KernelRun
from simulator.workloads.random_streams import StreamPurpose, stream_of
from simulator.workloads.request_draws import MixedWorkload, draw_requests
from simulator.workloads.vm_requests import VmRequests
from simulator.workloads.vm_types import PAPER_III
from tests.simulator.kernel.small_centers import SPAN_S, YEARLY, random_center, random_requests

FAILURES = (EventKind.UNIT_FAILS, EventKind.UNIT_REPAIRED)


def outages(
    center: DataCenter, decider: KernelDecider, asked: VmRequests, seed: int = 3
) -> list[tuple[float, EventKind, tuple[int, ...]]]:
    """Return all failures and repairs of a run."""
    run = KernelRun(center, asked, decider, span_s=SPAN_S, seed=seed)
    seen = []
    while (batch := run.step()) is not None:
        if batch.kind in FAILURES:
            seen.append((batch.at_s, batch.kind, tuple(batch.rows.tolist())))
    return seen


def failing_center(per_year: Mapping[str, float], **parts: Any) -> DataCenter:
    """Return six hosts with these failures."""
    rates = FailureRates(kind=tuple(per_year), per_year=np.array(list(per_year.values())))
    return replace(random_center(2), rates=rates, **parts)


OFTEN = 8 * YEARLY / SPAN_S


def test_placement_changes_no_failure() -> None:
    """Neither another placement nor other requests do."""
    center = failing_center({"host": OFTEN, "network": OFTEN})
    first = outages(center, PlacerDecider(FirstFit()), random_requests(1, 20))
    assert len(first) > 20
    assert first == outages(center, PlacerDecider(RandomFit()), random_requests(1, 20))
    assert first == outages(center, PlacerDecider(FirstFit()), random_requests(2, 5))
    assert first != outages(center, PlacerDecider(FirstFit()), random_requests(1, 20), seed=4)


def test_failures_of_a_kind_change_no_others() -> None:
    """Hosts fail at the same times if domains fail, too."""
    asked = random_requests(1, 10)
    alone = outages(failing_center({"host": OFTEN}), PlacerDecider(FirstFit()), asked)
    both = outages(
        failing_center({"network": OFTEN, "host": OFTEN}), PlacerDecider(FirstFit()), asked
    )
    hosts = len(random_center(2).hosts)
    of_hosts = [event for event in both if min(event[2]) < hosts]
    assert of_hosts == alone
    assert len(both) > len(alone)


def test_repairs_change_no_time_between_failures() -> None:
    """The first failures stay, and each later one is as long after its repair as before."""
    asked = random_requests(1, 10)

    def lives(repair_s: float) -> dict[int, list[float]]:
        center = failing_center({"host": OFTEN}, repair_s={"host": repair_s})
        begin = dict.fromkeys(range(6), 0.0)
        lived: dict[int, list[float]] = {host: [] for host in range(6)}
        for at_s, kind, rows in outages(center, PlacerDecider(FirstFit()), asked):
            for row in rows:
                if kind is EventKind.UNIT_FAILS:
                    lived[row].append(at_s - begin[row])
                else:
                    begin[row] = at_s
        return lived

    short, long = lives(60.0), lives(300.0)
    for host, times in long.items():
        assert times == pytest.approx(short[host][: len(times)])
    assert sum(map(len, long.values())) > 10


WORKLOAD = MixedWorkload(count=300, services_per_job=0.4, most_dirty_mib_s=5.0)


@pytest.mark.parametrize(
    ("change", "changes"),
    [
        ({"types": PAPER_III}, {"size", "floor", "bid"}),
        ({"exponent": 1.5}, {"lifetime_s"}),
        ({"boot_s": 0.0}, {"lifetime_s"}),
        ({"most_dirty_mib_s": 9.0}, {"dirty_mib_s"}),
    ],
)
def test_a_changed_part_of_a_workload(change: Mapping[str, Any], changes: set[str]) -> None:
    """Changes the columns of this part, and no others."""
    before = draw_requests(WORKLOAD, 7)
    after = draw_requests(replace(WORKLOAD, **change), 7)
    columns = {
        name: (getattr(before, name), getattr(after, name))
        for name in VmRequests.__dataclass_fields__
        if isinstance(getattr(before, name), np.ndarray)
    }
    different = {
        name for name, (old, new) in columns.items() if not np.array_equal(old, new, equal_nan=True)
    }
    assert different == changes


def test_each_purpose_has_numbers_of_its_own() -> None:
    """And so has each part, number and seed."""
    draws = {stream_of(1, purpose).random() for purpose in StreamPurpose}
    purpose = StreamPurpose.FAILURES
    draws |= {stream_of(1, purpose, "host").random(), stream_of(1, purpose, number=1).random()}
    draws.add(stream_of(2, purpose).random())
    assert len(draws) == len(StreamPurpose) + 3
    assert stream_of(1, purpose).random() in draws


def test_equal_seeds_give_equal_runs() -> None:
    """To the bit, with random placement and failures."""
    first, second = (
        KernelRun(
            random_center(2), random_requests(1, 20), PlacerDecider(RandomFit()), span_s=SPAN_S
        ).run()
        for _ in range(2)
    )
    assert first.columns.keys() == second.columns.keys()
    for name, column in first.columns.items():
        assert column.tobytes() == second.columns[name].tobytes()
