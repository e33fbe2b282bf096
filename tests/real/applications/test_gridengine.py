"""A real Grid Engine grows with its queue and shrinks with the price; no job is lost."""

from collections.abc import Iterator

import pytest

from tests.real.applications import gridengine
from tests.real.applications.batch import (
    Batch,
    ends_before_it_goes,
    follows_the_price,
    grows_and_shrinks,
    opened,
    outlives_a_worker,
)
from tests.real.applications.site import Containers
from tests.real.host import RealHost

JOBS, MANY = 8, 16


@pytest.fixture
def site(
    mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Containers]:
    """Yield a site for one batch system."""
    with opened(tmp_path_factory.mktemp("g"), mortal_hosts[0]) as running_site:
        yield running_site


def test_a_grid_engine_grows_with_its_queue_and_shrinks_when_it_is_done(site: Containers) -> None:
    """It grows from no worker and shrinks to none; each job runs once, to its end."""
    grows_and_shrinks(Batch(site, gridengine), JOBS)


def test_the_price_takes_workers_and_gives_them_back(site: Containers) -> None:
    """A rich tenant takes workers for a while; no job is lost, and none runs twice."""
    follows_the_price(Batch(site, gridengine), MANY)


def test_a_busy_worker_that_is_drained_ends_its_job_before_it_goes(site: Containers) -> None:
    """The platform pays for the worker until its job has ended."""
    ends_before_it_goes(Batch(site, gridengine, drain_limit_s=600))


def test_a_job_whose_worker_dies_runs_again_on_another(site: Containers) -> None:
    """Grid Engine no longer lists the dead worker."""
    outlives_a_worker(Batch(site, gridengine, off_limit_s=2))
