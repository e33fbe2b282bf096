"""Early starts of periods that platforms cause: by their controllers, and by what they wait for."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from merkatd.platforms.rules.awaited_starts import Awaited
from merkatd.protocol.platform_messages import (
    Action,
    Amounts,
    GiveUp,
    SetBids,
    SetSize,
    SuspendPlatform,
    WorkDone,
)
from merkatd.scheduler.base.early_periods import EarlyPeriods


class EarlyStarts:
    """The knowledge of the last period that decides whether the next one starts early."""

    def __init__(self) -> None:
        self._startable: AbstractSet[tuple[int, str]] = frozenset()
        """The platforms that could start at the prices of the last period, and their states."""
        self._bids: dict[int, Mapping[int, Amounts]] = {}
        """The bids that the controller of each platform has set last."""

    def after_period(self, early: EarlyPeriods, awaited: Awaited) -> None:
        """Start the next period when waiting platforms can start, or the time of one comes."""
        early.await_times(awaited.times)
        new = awaited.startable.keys() - self._startable
        self._startable = awaited.startable.keys()
        for owner in sorted({awaited.startable[platform] for platform in new} | awaited.freed):
            early.want(owner)

    def after_action(self, early: EarlyPeriods, platform: int, owner: int, action: Action) -> None:
        """Start the next period early if it must act on a controller's action."""
        if isinstance(action, SetBids):
            before, self._bids[platform] = self._bids.get(platform), action.bids
            if action.bids == before:
                return
        elif not isinstance(action, SetSize | SuspendPlatform | WorkDone | GiveUp):
            return
        early.want(owner)

    def forget(self, platform: int) -> None:
        """Forget the bids of a platform whose controller stops."""
        self._bids.pop(platform, None)
