"""Patience: at full speed or not at all, by the book of claims.

What simulation found to keep the most deadlines (`policies/patience.py`): it says up to which
price it would run, bids what full speed takes, and makes room as soon as those who pay as much or
more leave it less than it needs. When to start, and to go on, the manager reads in the same book.
"""

from collections.abc import Mapping

from controllers.applications.deadline import FullDeadline
from controllers.applications.iterative import Scene
from controllers.applications.trading import LEAST_BID, market_without, purse
from controllers.policies.bound import bids_for
from controllers.policies.patience import Book, Need, Temper, limit_price, must_yield
from controllers.policies.vertical import Standing
from merkatd.platforms.ports import Assignment, Claim, News

CPU = "cpu"
TEMPER = Temper()


class Patient(FullDeadline):
    """Waits for nothing but room, and for as long as its deadline allows."""

    async def on_start(self) -> None:
        """Who waits must know until when."""
        await super().on_start()
        if self.deadline_s is None:
            await self.give_up("slo.deadline is missing: patience needs one")

    async def on_price(self, news: News) -> None:
        """As others do, with the book at hand; not while it is on its way to disk."""
        self._news = news
        if news.state != "suspending":
            await super().on_price(news)

    async def _goes_on(self, scene: Scene) -> bool:
        """While those who would pay as much leave room for it."""
        if scene.measured and scene.hopeless:
            return await super()._goes_on(scene)
        news, units = self._news, units_of(self.assignment, self._news)
        before = news.claim or Claim(price=0.0, units=units)
        # To be suspended costs it time: it clings to what it has, as far as it can pay.
        offer = max(before.price, self._limit(scene, units) * TEMPER.clinging)
        claim = Claim(
            price=min(offer, purse(self.assignment, news).credits / max(units, 1.0)), units=units
        )
        others = list(news.market.claims)
        if before in others:
            others.remove(before)
        book = Book(news.market.capacity[CPU], [(one.price, one.units) for one in (*others, claim)])
        if must_yield(book, claim.price):
            room = max(book.room_above(claim.price) + units, 0.0)
            await self.suspend(
                f"who pays {claim.price:.3g} a unit of CPU or more leaves {room:g} of {units:g}"
            )
            return False
        if claim != news.claim:
            await self.claim(claim.price, claim.units)
        self._price = claim.price
        return True

    async def _bid(self, scene: Scene, standings: Mapping[int, Standing], spending: float) -> None:
        """What full speed takes, and for CPU no more than the price it claimed."""
        market = market_without(self._news)
        count, bids = len(standings), {}
        for vm, now in standings.items():
            bids[vm] = {
                name: max(
                    min(whole / count, self._price * size if name == CPU else spending / count),
                    LEAST_BID,
                )
                for name, whole, size in zip(
                    scene.names, bids_for(count, now.most, market), now.most, strict=True
                )
            }
        await self.set_bids(bids, f"full speed, up to {self._price:.3g} a unit of CPU")

    def _limit(self, scene: Scene, units: float) -> float:
        """Up to which price it would begin now."""
        funds = purse(self.assignment, self._news)
        left_s = max(scene.left_s, 0.0)
        need = Need(
            means=funds.credits + funds.renewal * left_s / funds.renewal_s,
            units=units,
            capacity=max(self._news.market.capacity[CPU], units),
            work_s=scene.work.ideal_s,
            left_s=left_s,
        )
        return limit_price(need, self.assignment.interval_s, TEMPER)


def units_of(assignment: Assignment, news: News) -> float:
    """CPU that all its VMs can use."""
    return sum(
        terms.ceiling.get(CPU, 0.0) * news.sizes.get(terms.name, 0) for terms in assignment.clusters
    )
