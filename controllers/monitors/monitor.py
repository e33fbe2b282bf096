"""The base class of every monitor, which measures an application for the platform's controller."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import Any

from controllers.controller import Hand
from merkatd.base.parameter_bounds import number
from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.platform_messages import Assignment, ClusterTerms, MarketNow


class Monitor:
    """Monitors one virtual cluster. Override `look`."""

    def __init__(
        self,
        assignment: Assignment,
        cluster: ClusterTerms,
        hand: Hand,
        wait: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        """Create the monitor without measuring. `wait` sleeps between two measurements."""
        self.assignment = assignment
        self.cluster = cluster
        self.parameters: Mapping[str, Any] = cluster.monitor.parameters if cluster.monitor else {}
        self.every_s = number(self.parameters, "every_s")
        self._hand = hand
        self._wait = wait

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """Return the time of a look, in seconds since the epoch, and its measurements.

        Return None if there is nothing new.
        """
        raise NotImplementedError

    async def on_market(self, market: MarketNow) -> None:
        """React to a period's prices; the default does nothing."""

    async def watch(self) -> None:
        """Look and report, again and again."""
        while True:
            seen = await self.look()
            if seen is not None:
                at_s, values = seen
                # The bus carries finite numbers only, and guests may report any numbers.
                known = {name: value for name, value in values.items() if isfinite(value)}
                measured = Measured(cluster=self.cluster.name, at_s=at_s, values=known)
                await self._hand.ask(measured)
            await self._wait(self.every_s)
