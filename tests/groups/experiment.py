"""The paper's evaluation (section 5) in virtual time: four classes, ten nodes of eight cores.

python -m tests.groups.experiment
"""

import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from merkatd.cluster import Ints, Migrate
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.journal import StepFilter
from merkatd.embedded.model.settings import HostSize
from merkatd.placement.groups import group_strategy
from merkatd.placement.groups.group_phases import assign_to_hosts
from tests.groups.site import Site, template

CLASSES = (30.0, 60.0, 90.0, 120.0)
NODES, CORES, REQUESTS = 10, 8, 20
WORK = CORES * 1_200.0
"""Core-seconds of each application: twenty minutes on a node of its own."""
BETWEEN = 4
"""Periods between the two rounds of submissions."""
UNTIL_DONE = 60
"""Periods after the second round."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    run_s: dict[float, float]
    """The mean run time by spending rate."""
    migrations: int
    """The number of VMs migrated at the second round."""


def round_robin(place: Ints, group: Ints, kind: Ints) -> Ints:
    """Assign group j to node j, wherever its VMs are."""
    del place, group
    return np.arange(len(kind))


def run(mapping: Any = None, periods: int = UNTIL_DONE, work: float = WORK) -> Outcome:
    """Run twenty requests in two rounds, with one VM of eight virtual CPUs each."""
    site = Site(hosts=NODES, size=HostSize(CORES * 100, 65_536))
    chosen = assign_to_hosts if mapping is None else mapping
    with patch.object(group_strategy, "assign_to_hosts", chosen), closing(site):
        rates: dict[int, float] = {}
        for number in range(REQUESTS):
            if number == REQUESTS // 2:
                site.periods(BETWEEN)
            rate = CLASSES[number % len(CLASSES)]
            group = site.create(rate, 1, template=template(CORES, work))
            rates[group] = rate
        site.periods(4)
        steps = site.read(lambda c: journal.recent(c, StepFilter(), 100_000))
        moved = sum(stored.step.kind == Migrate.kind for stored in steps)
        vms = {site.vms(group)[0]: rate for group, rate in rates.items()}
        site.periods(periods)
        times: dict[float, list[float]] = {rate: [] for rate in CLASSES}
        for vm, rate in vms.items():
            for ended_s, _ in site.cloud.guests.guests[vm].log[-1:]:
                times[rate].append(ended_s - site.bench.vm(vm).history[0].rstime)
        return Outcome(
            {rate: float(np.mean(run_times)) for rate, run_times in times.items() if run_times},
            moved,
        )


def main() -> int:
    """Print the figures that the paper prints."""
    ours, naive = run(), run(round_robin, 1)
    lines = [f"{'rate':>6} {'run time, s':>12}"]
    lines += [f"{rate:6g} {mean_s:12.0f}" for rate, mean_s in ours.run_s.items()]
    lines.append(f"migrations: {ours.migrations}, round robin: {naive.migrations}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
