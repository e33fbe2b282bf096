"""Two batch systems with different aims share a cloud, each as far as it needs."""

import statistics
from collections.abc import Iterator

import pytest

from tests.real.applications import gridengine, slurm
from tests.real.applications.batch import Batch, opened
from tests.real.applications.site import Containers, say
from tests.real.host import RealHost

CORES = 12
NEARLY_ALL = 9
"""The most workers: each head needs a core, and the host reserves some."""
MANY, SOME = 800, 100
SETTLING = 10
"""The periods until the numbers of workers settle, once both systems have some."""


@pytest.fixture
def site(
    mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """Yield a site whose jobs only sleep, so that they need few cores."""
    with opened(tmp_path_factory.mktemp("s"), mortal_hosts[0], CORES) as running_site:
        yield running_site


def test_alone_one_takes_all_and_two_share_in_halves(site: Containers) -> None:
    """Figure 11: one aims at throughput with a long queue, one at short waits with a short one."""
    sweep = Batch(site, gridengine, most=CORES)
    short = Batch(site, slurm, "bob", head=1, aim="wait", most=CORES, target_s=2.0)
    sweep.submit(MANY)
    sweep.until(lambda: len(sweep.workers) >= NEARLY_ALL, "nearly all for one")
    alone = len(sweep.workers)
    short.submit(SOME)
    short.until(lambda: len(short.workers) >= NEARLY_ALL // 3, "a third for the other")
    sweep.until(lambda: len(sweep.workers) <= 2 * NEARLY_ALL // 3, "what the one can't pay for")
    site.after_periods(SETTLING)
    counts = []
    for _ in range(SETTLING):
        site.after_periods(1)
        counts.append((len(sweep.workers), len(short.workers)))
    halves = [statistics.mean(column) for column in zip(*counts, strict=True)]
    assert len(short.ended()) < SOME, "it needs workers no more"
    short.until(lambda: len(short.ended()) >= SOME, "all jobs of the other")
    sweep.until(lambda: len(sweep.workers) >= NEARLY_ALL, "nearly all for one again")
    say(f"workers alone {alone}; together {halves[0]:.1f} and {halves[1]:.1f}; {counts}")
    assert halves == pytest.approx([statistics.mean(halves)] * 2, rel=0.2)
    assert short.ended() == list(range(1, SOME + 1))
