"""What `benchmarks/bus.py` tells: a market's prices, and how each of many platforms stands."""

from typing import Any

from merkatd.protocol.platform_messages import (
    PAST,
    Action,
    Assignment,
    ClusterTerms,
    MarketNow,
    Outcome,
    Standing,
    VmNow,
)

VMS = 4
MARKET = "default"


class Nobody:
    """A manager of platforms that takes everything."""

    async def act(self, platform: int, action_id: str, action: Action) -> Outcome:
        """Taken."""
        return Outcome(accepted=bool(platform and action_id and action))

    async def remember(self, platform: int, memory: Any) -> None:
        """Forgotten."""

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """Nobody ends here."""

    async def monitor_ended(self, platform: int, row: int, why: str) -> None:
        """Nothing comes of it."""


def assignment(platform: int) -> Assignment:
    """One cluster of a few VMs."""
    return Assignment(
        platform=platform,
        name=f"platform {platform}",
        owner=1,
        market=MARKET,
        controller="best_effort",
        parameters={},
        clusters=(ClusterTerms(name="workers", least=1, most=VMS),),
        deadline_s=None,
        ideal_s=None,
        performance=None,
        started_s=0.0,
        interval_s=60.0,
        budget=1.0,
        replenishment=0.0,
        replenishment_s=3600.0,
    )


def market(period: int) -> MarketNow:
    """Prices, and those of ten periods."""
    amounts = {"cpu": 0.0125, "memory": 0.0005}
    return MarketNow(
        name=MARKET,
        period=period,
        at_s=60.0 * period,
        next_s=60.0 * period + 60.0,
        prices=amounts,
        capacity={"cpu": 40_000.0, "memory": 1_048_576.0},
        reserve=dict.fromkeys(amounts, 0.0),
        past={name: (price,) * PAST for name, price in amounts.items()},
    )


def standing(platform: int, period: int) -> Standing:
    """What each of a platform's VMs got."""
    amounts = {"cpu": 12.5, "memory": 512.25}
    return Standing(
        platform=platform,
        period=period,
        at_s=60.0 * period,
        state="running",
        vms=tuple(
            VmNow(
                vm=platform * VMS + row,
                cluster="workers",
                state="running",
                bid=amounts,
                allocation=amounts,
            )
            for row in range(VMS)
        ),
        balance=1.0,
        budget=1.0,
        replenishment=0.0,
        deadline_s=None,
        performance=None,
        sizes={"workers": VMS},
    )
