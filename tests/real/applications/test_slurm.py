"""A real Slurm grows with its queue and shrinks with the price; no job is lost."""

from collections.abc import Iterator

import pytest

from tests.real.applications import slurm
from tests.real.applications.batch import Batch, follows_the_price, grows_and_shrinks, opened
from tests.real.applications.site import Containers
from tests.real.host import RealHost

JOBS, MANY = 8, 16


@pytest.fixture
def site(
    mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """Yield a site for one batch system."""
    with opened(tmp_path_factory.mktemp("s"), mortal_hosts[0]) as running_site:
        yield running_site


def test_a_slurm_grows_with_its_queue_and_shrinks_when_it_is_done(site: Containers) -> None:
    """It grows from no worker and shrinks to none; each job runs once, to its end."""
    grows_and_shrinks(Batch(site, slurm), JOBS)


def test_the_price_takes_workers_and_gives_them_back(site: Containers) -> None:
    """A rich tenant takes workers for a while; no job is lost, and none runs twice."""
    follows_the_price(Batch(site, slurm), MANY)
