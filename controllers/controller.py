"""The base class of every controller, which turns market news into requests of its platform.

A site's own controller is a class with `on_price`; `docs/controllers.md` builds one. It reads the
time only from `now_s`, the daemon's clock, so that it behaves the same in a simulation.
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
    GiveUp,
    News,
    ProgressReport,
    SetBids,
    SetLimit,
    SetSize,
    SuspendPlatform,
    WorkDone,
)


class Hand(Protocol):
    """The connection to the daemon."""

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Send a message, and return the answer."""


class Controller:
    """Controls one platform. Override `on_price`, and other methods if needed."""

    def __init__(self, assignment: Assignment, hand: Hand) -> None:
        """Begin with the tenant's template and the stored memory, both in `assignment`."""
        self.assignment = assignment
        self.memory: dict[str, Any] = dict(assignment.memory or {})
        """Values that JSON can carry; they are stored, and restored after a restart."""
        self.now_s = assignment.started_s or 0.0
        """The time of the last news on the daemon's clock."""
        self.deadline_s = assignment.deadline_s
        """The present deadline, which the tenant can change at any time."""
        self._hand = hand
        self._kept = self._written()

    async def on_start(self) -> None:
        """Prepare the controller; called once, before all other methods."""

    async def on_price(self, news: News) -> None:
        """React to a period's news, with its prices and the allocations of the platform's VMs.

        It is called about once in an interval (Note [Controllers decide once in an interval]).
        """
        raise NotImplementedError

    async def on_progress(self, measured: Measured) -> None:
        """React to a monitor's measurements."""

    async def set_bids(self, bids: Mapping[int, Amounts], reason: str = "") -> ActionOutcome:
        """Set the bids of these VMs, in credits per period by resource, until the next change."""
        return await self._act(SetBids(bids=bids, reason=reason))

    async def set_size(
        self,
        cluster: str,
        count: int | None = None,
        *,
        victims: Iterable[int] = (),
        reason: str = "",
    ) -> ActionOutcome:
        """Set the number of VMs in a cluster, or end particular VMs."""
        wish = SetSize(cluster=cluster, count=count, victims=tuple(victims), reason=reason)
        return await self._act(wish)

    async def set_limit(self, limit: float, reason: str = "") -> ActionOutcome:
        """Set the most credits per period for all VMs together, if they run in a limit order."""
        return await self._act(SetLimit(limit=limit, reason=reason))

    async def suspend(self, reason: str = "") -> ActionOutcome:
        """Suspend the platform until the daemon resumes it at a lower price."""
        return await self._act(SuspendPlatform(reason=reason))

    async def done(self, reason: str = "") -> ActionOutcome:
        """End the platform because its work is done; it spends no more credits."""
        return await self._act(WorkDone(reason=reason))

    async def give_up(self, reason: str) -> ActionOutcome:
        """End the platform because its work can no longer be done."""
        return await self._act(GiveUp(reason=reason))

    async def report(self, **how: Any) -> ActionOutcome:
        """Report the progress to the tenant; arguments are the fields of `ProgressReport`."""
        return await self._act(ProgressReport(**how))

    def left_s(self) -> float:
        """Return the seconds to the deadline; infinite without a deadline."""
        return math.inf if self.deadline_s is None else self.deadline_s - self.now_s

    async def take(self, event: News | Measured) -> None:
        """Pass an event to `on_price` or `on_progress`, then store the memory."""
        if isinstance(event, News):
            self.now_s, self.deadline_s = event.at_s, event.deadline_s
            await self.on_price(event)
        else:
            await self.on_progress(event)
        await self.keep()

    async def keep(self) -> None:
        """Store the memory, if it has changed; called after each event.

        A controller can call it earlier, for example before it sends a drain to a batch system.
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
