"""Tell: the price to whoever listens, and to each owner why a VM does not get what it wants."""

from collections.abc import Mapping
from dataclasses import dataclass

from twisted.logger import Logger

from merkatd.database.orders import Mode
from merkatd.scheduler.act import Acted
from merkatd.scheduler.decide import Decided
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.ports import UnreachableError
from merkatd.scheduler.world import World

MOST_MESSAGES = 50
"""In one period: OpenNebula is asked for each, and nobody reads more."""

_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class Announcement:
    """What everybody may know of a period."""

    period: int
    at_s: float
    prices: Mapping[str, Mapping[str, float]]
    """By market and resource."""
    seen: Seen
    decided: Decided
    acted: Acted
    mode: Mode = Mode.ON


def announced(
    world: World, seen: Seen, decided: Decided, acted: Acted, mode: Mode = Mode.ON
) -> Announcement:
    """The announcement of a period that is over."""
    prices = {
        market.name: dict(zip(seen.snapshot.resources, row.tolist(), strict=True))
        for market, row in zip(world.markets, decided.decision.prices, strict=True)
    }
    _log.info(
        "{mode}Period {period}: {vms} VMs on {hosts} hosts, {sent} steps sent, {refused} refused,"
        " {postponed} postponed; prices {prices}",
        mode="" if mode is Mode.ON else f"Mode {mode}: ",
        period=seen.period,
        vms=len(seen.snapshot.vms),
        hosts=len(seen.snapshot.hosts),
        sent=acted.sent,
        refused=acted.refused,
        postponed=acted.postponed,
        prices=prices,
    )
    return Announcement(seen.period, world.now(), prices, seen, decided, acted, mode)


def messages(seen: Seen, decided: Decided) -> dict[int, str]:
    """By VM id: what its owner should know."""
    told = dict(decided.decision.reasons)
    told.update(decided.limits.postponed)
    rules = seen.observation.constraints
    if rules is not None:
        told.update(rules.remarks)
    for vm, wish in seen.wishes.items():
        if wish.problems:
            told[vm] = "; ".join(wish.problems)
    return told


def due(seen: Seen, told: Mapping[int, str], *, withdraw: bool) -> list[tuple[int, str]]:
    """What is not shown yet; nothing at all where a message has had its time."""
    shown = seen.observation.messages
    new = [(vm, message) for vm, message in told.items() if shown.get(vm) != message]
    old = [(vm, "") for vm in shown if vm not in told] if withdraw else []
    return sorted(new)[:MOST_MESSAGES] + sorted(old)[:MOST_MESSAGES]


async def tell(world: World, seen: Seen, decided: Decided) -> None:
    """Show the messages; one that can't be shown is no reason to stop."""
    told = messages(seen, decided)
    # Where OpenNebula has a scheduler of its own, what that one said is not ours to withdraw.
    for vm, message in due(seen, told, withdraw=not world.handing):
        try:
            await world.cloud.tell(vm, message)
        except UnreachableError as error:
            _log.warn("VM {vm} could not be told: {error}", vm=vm, error=str(error))
            return
