"""Orders and reviews of platforms at the same time, on a real MariaDB: none is lost."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.database.fleets import platform_store
from merkatd.database.ledger import account_store
from merkatd.platforms import tenant_orders
from merkatd.platforms.lifecycle import period_review
from merkatd.platforms.lifecycle.template_reader import read_template
from merkatd.platforms.tenant_orders import OrderError, Submission
from merkatd.service.base.callers import LOCAL
from tests.platforms.site import VM, Site, platforms_at, template
from tests.servers import MariaDb, locking, retried

DATABASE = "platformrace"
LONG_S = 30.0
"""A time that no transaction of these tests reaches."""
SHORT_S = 0.5
"""Enough for an order that nothing blocks."""


@pytest.fixture
def site(mariadb: MariaDb) -> Iterator[Site]:
    """Yield a site whose books are in a MariaDB."""
    made = Site(engine=make_engine(mariadb.make(DATABASE)))
    yield made
    made.agree()
    made.close()
    mariadb.drop(DATABASE)


class DuringReview:
    """Gives an order once, after the next review has read all platforms."""

    def __init__(
        self, site: Site, monkeypatch: pytest.MonkeyPatch, order: Callable[[sa.Connection], object]
    ) -> None:
        self._site, self._order = site, order
        self._thread: Thread | None = None
        real = period_review._scene

        def scene(*given: Any) -> Any:
            answer = real(*given)
            if self._thread is None:
                self._thread = Thread(target=self._give)
                self._thread.start()
                self._thread.join(SHORT_S)
            return answer

        monkeypatch.setattr(period_review, "_scene", scene)

    def _give(self) -> None:
        transaction(self._site.engine, self._order)

    def given(self) -> None:
        """Wait until the order is carried out."""
        assert self._thread is not None
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()


def test_a_platform_that_is_stopped_as_it_starts_does_not_start(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order closes the platform's account, so no account would pay for its VMs."""
    site.periods(2)
    before = site.balances()[site.ann]
    platform = site.submit()
    order = DuringReview(
        site, monkeypatch, lambda c: tenant_orders.stop(c, platform, "ann", site.wall_s())
    )
    site.periods(1)
    order.given()
    site.periods(6)
    assert site.platform(platform).state == "cancelled"
    assert site.alive() == []
    assert site.balances()[site.ann] == pytest.approx(before, abs=100.0)


def test_submissions_at_once_count_each_other(site: Site) -> None:
    """Of two platforms submitted at once, the limit on processes admits one."""
    text = template()

    def submit(token: str) -> bool:
        given = Submission(
            token=token,
            owner=site.ann,
            text=text,
            template=read_template(text),
            vm_templates={"nodes": VM},
            who="ann",
            most_processes=1,
        )
        money = site.scheduler.world.money
        try:
            retried(site.engine, lambda c: tenant_orders.submit(c, given, money, 0.0))
        except OrderError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool, site.engine.connect() as busy:
        with busy.begin():
            account_store.lock_books(busy)
            sent = [pool.submit(submit, token) for token in ("first", "second")]
            time.sleep(SHORT_S)  # both wait for the books now
        assert sorted(future.result() for future in sent) == [False, True]
    assert len(site.read(platform_store.living)) == 1


def test_a_view_takes_no_lock(site: Site) -> None:
    """Reads of a tenant never make a period wait."""
    platform = site.submit()
    with locking(site.engine) as locks:
        site.wait(platforms_at(site).platform(LOCAL, platform))
    assert locks == []
