"""A call's bid stores what tenants have said, and nothing else."""

from twisted.internet.defer import ensureDeferred

from merkatd.currency.settings import MoneySettings
from merkatd.database.scheduler import bid_store
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.period_view import prepare
from tests.scheduler.frontend import Frontend
from tests.served import services_at


def test_a_bid_for_one_good_stores_no_lowered_bid_for_another() -> None:
    """The default bid for memory, lowered while its owner lacks credits, holds again later."""
    site = Frontend(hosts=1, money=MoneySettings(starting_credits=0.5, renewal_s=1e9))
    try:
        vm = site.vm(1.0, site.user("ann"), MERKAT_BID_MEMORY=None)
        view = prepare(site.periods(3), site.scheduler.world.markets)
        assert view.now.snapshot.vms.bid.max() < 1.0
        bids = services_at(site.scheduler).bids
        outcome = site.result(ensureDeferred(bids.set_bid(LOCAL, view, vm, {"cpu": 2.0})))
        assert [resource.new for resource in outcome.resources] == [
            2.0,
            view.now.snapshot.vms.bid[0, 1],
        ]
        assert site.read(bid_store.amounts)[vm] == {"cpu": 2.0}
    finally:
        site.close()
