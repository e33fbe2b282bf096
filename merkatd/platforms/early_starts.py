"""Early starts of periods that platforms cause: by their controllers, and by what they wait for."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from merkatd.platforms.waiting_platforms import ReviewTimes, awaited_by_platforms
from merkatd.protocol.platform_messages import (
    Action,
    Amounts,
    GiveUp,
    MarketNow,
    SetBids,
    SetSize,
    SuspendPlatform,
    WorkDone,
)
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.phases.announce import Announcement


class EarlyStarts:
    """The knowledge of the last period that decides whether the next one starts early."""

    def __init__(self) -> None:
        self._reviewed: ReviewTimes | None = None
        self._startable: AbstractSet[tuple[int, str]] = frozenset()
        """The platforms that could start at the prices of the last period, and their states."""
        self._bids: dict[int, Mapping[int, Amounts]] = {}
        """The bids that the controller of each platform has set last."""

    def note_review(self, at_s: float, now_s: float) -> None:
        """Record the time of a review of platforms, by the wall clock and as believed."""
        self._reviewed = ReviewTimes(at_s, now_s)

    async def after_period(
        self, world: PeriodContext, announcement: Announcement, published: Sequence[MarketNow]
    ) -> None:
        """Start the next period when waiting platforms can start, or the time of one comes.

        Without platforms nothing is `published`.
        """
        if self._reviewed is None or announcement.mode.watches or not published:
            return
        work = partial(
            awaited_by_platforms,
            context=world,
            announcement=announcement,
            reviewed=self._reviewed,
            now=ReviewTimes(world.now(), world.believed.now(world)),
        )
        awaited = await world.database.read(work)
        world.early.await_times(awaited.times)
        new = awaited.startable.keys() - self._startable
        self._startable = awaited.startable.keys()
        for owner in sorted({awaited.startable[platform] for platform in new} | awaited.freed):
            world.early.want(owner)

    def after_action(self, world: PeriodContext, platform: int, owner: int, action: Action) -> None:
        """Start the next period early if it must act on a controller's action."""
        if isinstance(action, SetBids):
            before, self._bids[platform] = self._bids.get(platform), action.bids
            if action.bids == before:
                return
        elif not isinstance(action, SetSize | SuspendPlatform | WorkDone | GiveUp):
            return
        world.early.want(owner)

    def forget(self, platform: int) -> None:
        """Forget the bids of a platform whose controller stops."""
        self._bids.pop(platform, None)
