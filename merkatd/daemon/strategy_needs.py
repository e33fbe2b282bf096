"""The check at the start whether the cloud has what the markets' strategies need."""

from twisted.logger import Logger

from merkatd.cluster.snapshot import view_of_market
from merkatd.daemon.errors import StartError
from merkatd.placement.contract import Need
from merkatd.placement.snapshot_needs import UnfilledNeedError, require_needs
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.snapshot_builder import StoredInputs, snapshot_of
from merkatd.scheduler.phases.observe import read_cloud

_log = Logger()
_MEASURED = frozenset({Need.HISTORY})
"""The parts that the daemon fills itself, from its first observation on."""


async def refuse_unfilled_needs(world: PeriodContext) -> None:
    """Raise StartError if a market's strategy needs a part that the cloud lacks.

    If the cloud can't be reached now, the periods check it: they place and move nothing then.
    """
    if not any(market.entry.needs - _MEASURED for market in world.markets):
        return
    try:
        looked = await read_cloud(world)
    except CloudUnreachableError as error:
        _log.warn("The strategies' needs are not checked at the start: {error}", error=error)
        return
    known = StoredInputs(bids={}, wishes=looked.bids, waiting=())
    seen, use = looked.observation, looked.use
    snapshot = snapshot_of(0, seen, use, known, world.markets, world.goods)
    for row, market in enumerate(world.markets):
        try:
            require_needs(market.entry, view_of_market(snapshot, row), beside=_MEASURED)
        except UnfilledNeedError as error:
            raise StartError(f"market {market.name}: {error}") from None
