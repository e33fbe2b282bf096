"""The amounts that VMs which are off can pay for if they are resumed."""

from typing import Any

import pytest
import sqlalchemy as sa

from merkatd.currency import MICRO
from merkatd.database.ledger import account_store
from merkatd.database.scheduler import price_store
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging.means_at_rest import MeansAtRest, means_in, with_means
from tests.platforms.site import Site
from tests.scheduler.frontend import PASSWORD

PRICING = Pricing(reserve={"cpu": 0.1, "memory": 0.01})


class Rest:
    """Two VMs of one tenant that are off, and the columns of the period that saw them."""

    def __init__(self, market: MarketRules) -> None:
        self.site = Site(hosts=1, markets=(market,))
        self.vms = [self.site.vm(20.0, f"ann:{PASSWORD}") for _ in range(2)]
        self.site.periods(2)
        for vm in self.vms:
            self.site.bench.ok("one.vm.action", "poweroff-hard", vm)
        self.site.clock.advance(60)
        self.period = self.site.periods(1).period

    def means(self, **account: int) -> dict[int, MeansAtRest]:
        """Return the VMs' means if the tenant's account has these values instead."""
        context = self.site.scheduler.world

        def work(connection: sa.Connection) -> dict[int, MeansAtRest]:
            arrays: Any = price_store.load_allocations(connection, self.period)
            assert (arrays["paid_part"] == 1.0).all()
            table = account_store.ACCOUNTS
            connection.execute(
                sa.update(table).where(table.c.owner == self.site.ann).values(**account)
            )
            price_store.store_allocations(
                connection, self.period, with_means(connection, context, arrays)
            )
            means_by_vm = dict(means_in(connection, context, self.period))
            connection.rollback()
            return means_by_vm

        means_by_vm: dict[int, MeansAtRest] = self.site.read(work)
        return means_by_vm


@pytest.mark.parametrize(("strategy", "cost"), [("tabu", 20.0 + 5.12), ("groups", 40.0)])
def test_the_vms_of_a_payer_share_its_free_credits(strategy: str, cost: float) -> None:
    """With credits for half of them, each gets half; an owner in debt gets nothing."""
    rest = Rest(MarketRules(strategy=strategy, pricing=PRICING))
    two_periods = round(2 * 2 * cost * MICRO)
    full = rest.means(reserved=0)
    half = rest.means(balance=two_periods, reserved=two_periods // 2)
    in_debt = rest.means(debt=1)
    rest.site.close()
    for vm in rest.vms:
        assert full[vm].units == 200.0
        assert half[vm].units == pytest.approx(100.0)
        assert half[vm].weighs == pytest.approx(full[vm].weighs / 2)
        assert half[vm].amounts == pytest.approx([amount / 2 for amount in full[vm].amounts])
        assert in_debt[vm] == MeansAtRest(0.0, 0.0, (0.0, 0.0))
