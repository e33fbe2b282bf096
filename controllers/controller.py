"""The base of every controller: told what the market does, it says what its platform wants.

A controller of one's own is a class with `on_price`; `docs/controllers.md` builds one. It never
asks what time it is but by `now_s`, the daemon's time, so that it does the same in a simulation.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from merkatd.protocol.bus_messages import Measured, Remember
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    Amounts,
    Assignment,
    Claim,
    GiveUp,
    News,
    ProgressReport,
    SetBids,
    SetSize,
    SuspendPlatform,
    WorkDone,
)


class Hand(Protocol):
    """The way to the daemon."""

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """The answer to a message."""


class Controller:
    """Looks after one platform. Override `on_price`, and what else is of use."""

    def __init__(self, assignment: Assignment, hand: Hand) -> None:
        """`assignment` is what the tenant wrote, and what was remembered."""
        self.assignment = assignment
        self.memory: dict[str, Any] = dict(assignment.memory or {})
        """Whatever JSON can carry: it is kept, and is here again after a restart."""
        self.now_s = assignment.started_s or 0.0
        """When the last news was made, on the daemon's clock."""
        self.deadline_s = assignment.deadline_s
        """The tenant can change it at any time."""
        self._hand = hand
        self._kept = self._written()

    async def on_start(self) -> None:
        """Called once, before anything else."""

    async def on_price(self, news: News) -> None:
        """Called after each period, with its prices and what the platform's VMs got."""
        raise NotImplementedError

    async def on_progress(self, measured: Measured) -> None:
        """Called when a monitor has something to tell."""

    async def set_bids(self, bids: Mapping[int, Amounts], reason: str = "") -> ActionOutcome:
        """Bid so much for these VMs, in credits per period by resource, until told otherwise."""
        return await self._act(SetBids(bids=bids, reason=reason))

    async def set_size(
        self,
        cluster: str,
        count: int | None = None,
        *,
        victims: Iterable[int] = (),
        reason: str = "",
    ) -> ActionOutcome:
        """Have so many VMs in a cluster, or end the ones named."""
        wish = SetSize(cluster=cluster, count=count, victims=tuple(victims), reason=reason)
        return await self._act(wish)

    async def claim(self, price: float, units: float) -> ActionOutcome:
        """Have it known that so much CPU is wanted up to this price, but not by whom."""
        return await self._act(Claim(price=price, units=units))

    async def suspend(self, reason: str = "") -> ActionOutcome:
        """Suspend the platform, until the price allows it to go on."""
        return await self._act(SuspendPlatform(reason=reason))

    async def done(self, reason: str = "") -> ActionOutcome:
        """The work is done: everything can be ended, and no credit is spent any more."""
        return await self._act(WorkDone(reason=reason))

    async def give_up(self, reason: str) -> ActionOutcome:
        """The work can't be done any more: everything is to be ended."""
        return await self._act(GiveUp(reason=reason))

    async def report(self, **how: Any) -> ActionOutcome:
        """Tell the tenant how it goes; the words are the fields of `Report`."""
        return await self._act(ProgressReport(**how))

    def left_s(self) -> float:
        """Seconds to the deadline, infinite where there is none."""
        return math.inf if self.deadline_s is None else self.deadline_s - self.now_s

    async def take(self, event: News | Measured) -> None:
        """What happened: call whom it concerns, and have kept what is to be remembered."""
        if isinstance(event, News):
            self.now_s, self.deadline_s = event.at_s, event.deadline_s
            await self.on_price(event)
        else:
            await self.on_progress(event)
        await self.keep()

    async def keep(self) -> None:
        """Have the memory kept: called after each event, and by controllers for which that is late.

        Before the head of a batch system is told of a drain, for one.
        """
        written = self._written()
        if written != self._kept:
            await self._hand.ask(Remember(memory=self.memory))
            self._kept = written

    async def _act(self, action: Any) -> ActionOutcome:
        outcome: ActionOutcome = await self._hand.ask(action)
        return outcome

    def _written(self) -> str:
        return json.dumps(self.memory, sort_keys=True)
