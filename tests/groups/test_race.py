"""Two users edit a group at the same time, on a real MariaDB, while periods continue."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.base.transactions import is_transient
from merkatd.database.database import transaction
from merkatd.groups import group_orders
from merkatd.groups.group_orders import Edit
from tests.groups.site import Site, template
from tests.servers import MariaDb

DATABASE = "grouprace"
VMS = 12


@pytest.fixture
def site(mariadb: MariaDb) -> Iterator[Site]:
    """Yield three hosts whose database is a MariaDB."""
    made = Site(engine=make_engine(mariadb.make(DATABASE)))
    yield made
    made.agree()
    made.close()
    mariadb.drop(DATABASE)


def edit(site: Site, group: int, new: Edit) -> None:
    """Edit as the daemon does, with retries of transient errors."""
    while True:
        try:
            transaction(site.engine, lambda c: group_orders.edit(c, group, new))
        except sa.exc.DBAPIError as error:
            if not is_transient(error):
                raise
        else:
            return


def run_concurrently(site: Site, *edits: Callable[[], None]) -> None:
    """Run edits in threads that start together, with periods until all have ended."""
    ready = Barrier(len(edits))

    def work(one: Callable[[], None]) -> None:
        ready.wait()
        one()

    with ThreadPoolExecutor(len(edits)) as pool:
        running: list[Future[Any]] = [pool.submit(work, one) for one in edits]
        while not all(one.done() for one in running):
            site.period()
            site.clock.advance(60.0)
        for one in running:
            one.result()


def test_no_edit_is_lost(site: Site) -> None:
    """Two users each end four VMs in turn: eight are gone, and the others stay."""
    group = site.create(60.0, VMS, template=template(1, memory=128))
    site.periods(3)
    vms = site.vms(group)
    assert len(site.running()) == VMS

    def end_vms(named: list[int]) -> Callable[[], None]:
        def work() -> None:
            for vm in named:
                edit(site, group, Edit(ending=[vm]))

        return work

    run_concurrently(site, end_vms(vms[0:8:2]), end_vms(vms[1:8:2]))
    site.periods(3)
    found = site.group(group)
    assert found is not None
    assert (found.nvm, found.why) == (VMS - 8, "")
    assert site.alive() == site.vms(group) == vms[8:]


def test_the_last_edit_applies_completely(site: Site) -> None:
    """After many concurrent edits the group has the number and rate of the last one."""
    group = site.create(60.0, 3, template=template(1, memory=128))

    def edit_randomly(seed: int) -> Callable[[], None]:
        def work() -> None:
            for nvm in np.random.default_rng(seed).integers(0, 9, 12).tolist():
                edit(site, group, Edit(nvm=nvm, spending_rate=10.0 * (nvm + 1)))

        return work

    run_concurrently(site, edit_randomly(1), edit_randomly(2))
    site.periods(4)
    found = site.group(group)
    assert found is not None
    assert found.spending_rate == 10.0 * (found.nvm + 1), "parts of two edits are mixed"
    assert len(site.running()) == len(site.alive()) == found.nvm
