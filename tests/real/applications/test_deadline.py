"""Deadlines in containers: best effort slows down; a deadline is met and costs credits."""

import os
import statistics
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.real.applications.application import MOST_S, OVER, WORK, Run, made, step_s
from tests.real.applications.site import Containers, containers, heat, say
from tests.real.host import RealHost, until

BID = 10.0
"""The bid of each VM of the crowd."""
CROWD = 4
OTHERS = (0, 2, 4, 9)
"""The numbers of other VMs, one after the other; each wants two cores."""


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return the number of steps that take about ten seconds of a core's time."""
    return int(10.0 / step_s(tmp_path_factory.mktemp("heat")))


@pytest.fixture
def site(
    mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """Yield a site with one host of two cores."""
    with containers(
        tmp_path_factory.mktemp("s"), mortal_hosts[0], cores=2, memory_mib=4096
    ) as running_site:
        yield running_site


def test_best_effort_slows_as_others_arrive(site: Containers, steps: int) -> None:
    """Figure 6: a VM with a constant bid gets less of two cores with each new VM."""
    folder = site.folder("heat")
    site.call(
        "one.vm.allocate",
        f'NAME="heat" CPU="1" VCPU="1" MEMORY="256" MERKAT_BID_CPU="{BID}" MERKAT_BID_MEMORY="1"'
        f' MERKAT_MIN_MEMORY="256" RUN="{heat(folder, 1, 100 * steps, WORK)}"',
        False,
    )
    log, pace_s, there = folder / "run.log", [], 0
    for others in OTHERS:
        while there < others:
            site.burning(BID)
            there += 1
        site.after_periods(5)
        before = len(made(log))
        until(lambda: len(made(log)) >= before + 20, f"steps beside {others} others")  # noqa: B023
        pace_s.append(statistics.median(took for _, took in made(log)[before:]))
    paces = zip(OTHERS, pace_s, strict=True)
    say("a step beside others: " + ", ".join(f"{who}: {pace:.3f} s" for who, pace in paces))
    assert all(later > 1.2 * before for before, later in pairwise(pace_s))
    assert pace_s[-1] > 4 * pace_s[0]


def test_three_deadlines_are_met_and_the_tighter_is_the_dearer(
    site: Containers, steps: int
) -> None:
    """Figures 7 and 8: the same work at the same time, beside best-effort VMs.

    Controllers plan to end about 5 % before their deadlines. A machine that stands still for longer
    makes them late, and no bid could help. So late platforms get a second attempt, beside the time
    that this machine lost meanwhile. The bids have none.
    """
    for _ in range(CROWD):
        site.burning(BID, vcpus=1)
    late = _late(site, steps, "")
    if late:
        say("\n".join(["late at first:", *late]))
        late = _late(site, steps, "-again")
    assert not late, "\n".join(late)


def _late(site: Containers, steps: int, attempt: str) -> list[str]:
    """Run three platforms at the same time; return a description of each that was late.

    Most credits go in the first periods, in which bids double until each pace is known, and these
    sums differ from run to run. So the bids are compared once all platforms are on track.
    """
    lost_before_s = _lost_s()
    runs = {
        deadline_s: Run(site, name + attempt, steps * 11 // 20, deadline_s, processes=2)
        for name, deadline_s in (("ann", 60.0), ("bob", 100.0), ("cid", 150.0))
    }
    for run in runs.values():
        until(
            lambda: run.state in OVER or "On track" in run.shown(),  # noqa: B023
            "a platform is on track",
            patience_s=MOST_S,
        )
    tight = runs[60.0]
    bids = []
    while tight.state not in OVER:
        bids.append([run.bid for run in runs.values()])
        site.after_periods(1)
    late = [
        f"{run.description()}\nthe machine lost {_lost_s() - lost_before_s:.1f} s meanwhile"
        for run in runs.values()
        if run.finished() != "done" or run.missed_s() >= 0
    ]
    if late:
        return late
    typical = [statistics.median(column) for column in zip(*bids[:-1], strict=True)]
    for (deadline_s, run), bid in zip(runs.items(), typical, strict=True):
        say(
            f"{deadline_s:g} s: {bid:.3g} credits a period of {len(bids)}, {run.spent:.3g} in all,"
            f" {-run.missed_s():.1f} s early"
        )
    assert typical == sorted(typical, reverse=True)
    assert typical[0] > 1.1 * typical[-1]
    return []


def _lost_s() -> float:
    """Return the seconds in which cores waited for the disk, or belonged to other machines."""
    *_, waits, _, _, stolen, _, _ = Path("/proc/stat").read_text().split(maxsplit=11)[:11]
    return (int(waits) + int(stolen)) / os.sysconf("SC_CLK_TCK")


def test_a_deadline_that_is_brought_forward_is_met(site: Containers, steps: int) -> None:
    """Figures 9 and 10: the relaxed run costs little; then it bids more and meets its deadline."""
    run = Run(site, "ann", steps, 900.0)
    run.until_made(steps // 10)
    for _ in range(CROWD):
        site.burning(BID)
    run.until(lambda: run.bid > 0.0, "a bid against the crowd")
    site.after_periods(12)
    relaxed, slow_s = run.bid, run.pace_s(8)
    site.command("platform", "update", str(run.id), "--deadline", "60s")
    run.until(lambda: run.bid > 1.5 * relaxed, "a higher bid")
    run.until(lambda: "On track" in run.shown(), "it is on track")
    hurried = run.bid
    assert run.finished() == "done", run.description()
    say(
        f"relaxed: {relaxed:.3g} credits a period, a step {slow_s:.3f} s;"
        f" hurried: {hurried:.3g}, {run.pace_s(20):.3f} s; done {-run.missed_s():.1f} s early"
    )
    assert run.missed_s() < 0
    assert [step for step, _ in run.made] == list(range(1, run.steps + 1))
