"""Two users edit a group at the same time, on a real MariaDB, while periods continue."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.fleets import group_store
from merkatd.database.ledger import account_store
from merkatd.groups import group_orders
from merkatd.groups.group_orders import MOST_VMS, Creation, Edit, GroupError
from merkatd.service.base.callers import LOCAL
from tests.groups.site import Site, groups_at, template
from tests.servers import MariaDb, locking, retried

DATABASE = "grouprace"
VMS = 12
LONG_S, SHORT_S = 30.0, 0.5


@pytest.fixture
def site(mariadb: MariaDb) -> Iterator[Site]:
    """Yield three hosts whose database is a MariaDB."""
    made = Site(engine=make_engine(mariadb.make(DATABASE)))
    yield made
    made.agree()
    made.close()
    mariadb.drop(DATABASE)


def edit(site: Site, group: int, new: Edit) -> None:
    """Edit the group."""
    retried(site.engine, lambda c: group_orders.edit(c, group, new))


def run_concurrently(site: Site, *edits: Callable[[], None]) -> None:
    """Run edits in threads that start together, with periods until all have ended."""
    ready = Barrier(len(edits))

    def work(edit: Callable[[], None]) -> None:
        ready.wait()
        edit()

    with ThreadPoolExecutor(len(edits)) as pool:
        running: list[Future[Any]] = [pool.submit(work, edit) for edit in edits]
        while not all(future.done() for future in running):
            site.period()
            site.clock.advance(60.0)
        for future in running:
            future.result()


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
    row = site.group(group)
    assert row is not None
    assert (row.nvm, row.why) == (VMS - 8, "")
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
    row = site.group(group)
    assert row is not None
    assert row.spending_rate == 10.0 * (row.nvm + 1), "parts of two edits are mixed"
    assert len(site.running()) == len(site.alive()) == row.nvm


def test_creations_at_once_count_each_other(site: Site) -> None:
    """Of two groups with more than half of a user's VM limit each, one is created."""
    known = site.group(site.create(60.0, 0, template=template(1, memory=128)))
    assert known is not None

    def create(token: str) -> bool:
        given = Creation(
            token=token,
            owner=known.owner,
            user_group=known.user_group,
            name=token,
            market=known.market,
            template=known.template,
            spending_rate=1.0,
            nvm=MOST_VMS // 2 + 1,
        )
        money = site.scheduler.world.money
        return carried_out(site, lambda c: group_orders.create(c, given, money, 0.0))

    with ThreadPoolExecutor(2) as pool, site.engine.connect() as busy:
        with busy.begin():
            account_store.lock_books(busy)
            sent = [pool.submit(create, token) for token in ("first", "second")]
            time.sleep(SHORT_S)  # both wait for the books now
        assert sorted(future.result() for future in sent) == [False, True]
    for row in site.read(group_store.living):
        site.delete(row.id)


def test_edits_at_once_count_each_other(site: Site) -> None:
    """Of two groups that grow to more than half of a user's VM limit each, one grows."""
    groups = [site.create(60.0, 0, template=template(1, memory=128)) for _ in range(2)]
    real, ready = group_store.locked, Barrier(2, timeout=LONG_S)

    def at_once_(connection: sa.Connection, group: int) -> Any:
        answer = real(connection, group)
        with suppress(BrokenBarrierError):
            ready.wait(SHORT_S)
        return answer

    def grow(group: int) -> bool:
        new = Edit(nvm=MOST_VMS // 2 + 1)
        return carried_out(site, lambda c: group_orders.edit(c, group, new))

    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(group_store, "locked", at_once_)
        assert sorted(pool.map(grow, groups)) == [False, True]
    for group in groups:
        site.delete(group)


def test_a_view_takes_no_lock(site: Site) -> None:
    """Reads of a user never make a period wait."""
    group = site.create(60.0, 1, template=template(1, memory=128))
    with locking(site.engine) as locks:
        site.wait(groups_at(site).group(LOCAL, group))
    assert locks == []
    site.delete(group)


def carried_out(site: Site, work: Callable[[sa.Connection], object]) -> bool:
    """Return whether an order is accepted."""
    try:
        retried(site.engine, work)
    except GroupError:
        return False
    return True
