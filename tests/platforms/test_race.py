"""A tenant's order in the middle of a period's review, on a real MariaDB: neither is lost."""

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.platforms import tenant_orders
from merkatd.platforms.lifecycle import period_review
from tests.platforms.site import Site
from tests.servers import MariaDb

DATABASE = "platformrace"
LONG_S = 30.0
"""More than any transaction here takes."""
SHORT_S = 0.5
"""Enough for an order that nothing blocks."""


@pytest.fixture
def site(mariadb: MariaDb) -> Iterator[Site]:
    """Whose books are in a MariaDB."""
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
            found = real(*given)
            if self._thread is None:
                self._thread = Thread(target=self._give)
                self._thread.start()
                self._thread.join(SHORT_S)
            return found

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
    """Its account is closed by the order: VMs of it would run at nobody's expense."""
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
