"""Two bids for one VM at the same moment, on a real MariaDB: each keeps what the other says."""

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.database.base.engine import make_engine
from merkatd.database.scheduler import bid_store
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.period_view import prepare
from tests.scheduler.frontend import Frontend
from tests.served import services_at
from tests.servers import MariaDb

DATABASE = "bidrace"
LONG_S, SHORT_S = 30.0, 0.5


@pytest.fixture
def site(mariadb: MariaDb) -> Iterator[Frontend]:
    """Whose books are in a MariaDB."""
    made = Frontend(engine=make_engine(mariadb.make(DATABASE)))
    yield made
    made.close()
    mariadb.drop(DATABASE)


def test_a_bid_for_one_good_keeps_the_bid_for_another(
    site: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's program raises CPU, another memory: both have been told that it is done."""
    vm = site.vm(1.0)
    view = prepare(site.periods(2), site.scheduler.world.markets)
    services = services_at(site.scheduler)
    real, threads = bid_store.record_bids, list[Thread]()

    def bid(**amounts: float) -> None:
        site.result(ensureDeferred(services.bids.set_bid(LOCAL, view, vm, amounts)))

    def record(*given: Any) -> Any:
        if not threads:
            threads.append(Thread(target=bid, kwargs={"memory": 7.0}))
            threads[0].start()
            threads[0].join(SHORT_S)
        return real(*given)

    monkeypatch.setattr(bid_store, "record_bids", record)
    bid(cpu=5.0)
    threads[0].join(LONG_S)
    assert site.read(bid_store.amounts)[vm] == {"cpu": 5.0, "memory": 7.0}
