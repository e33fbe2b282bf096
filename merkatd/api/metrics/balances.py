"""What groups have to pay with, read from the books after each period, never by a scrape."""

from collections import defaultdict
from collections.abc import Callable, Mapping

import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.currency import MICRO
from merkatd.database.ledger import account_store, tenant_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import period_store
from merkatd.scheduler.base.ports import Transactions
from merkatd.scheduler.phases.announce import Announcement

_UNKNOWN = ""
"""The group of those of whom OpenNebula shows none."""

_log = Logger()


class Balances:
    """Reads them, and hands them on."""

    def __init__(
        self,
        database: Transactions,
        tell: Callable[[Mapping[str, float], float], None],
        quarantined: Callable[[int], None],
    ) -> None:
        """`tell` gets balances by group and the treasury, `quarantined` how many periods wait."""
        self._database = database
        self._tell = tell
        self._quarantined = quarantined

    def announced(self, announcement: Announcement) -> None:
        """A period is over."""
        ensureDeferred(self._read(announcement.seen.observation.group_name))

    async def _read(self, names: Mapping[int, str]) -> None:
        try:
            of_groups, treasury = await self._database.read(balances)
            waiting = await self._database.read(period_store.quarantined)
        except Exception as error:  # noqa: BLE001 - the next period reads again, unless it ends
            _log.warn("Balances were not read for the figures: {error}", error=str(error))
            return
        named = {
            _UNKNOWN if group is None else names.get(group, str(group)): amount / MICRO
            for group, amount in of_groups.items()
        }
        self._tell(named, treasury / MICRO)
        self._quarantined(len(waiting))


def balances(connection: sa.Connection) -> tuple[Mapping[int | None, int], int]:
    """By OpenNebula's group, and in the treasury: micro-credits."""
    groups = {one.owner: one.group for one in tenant_store.every(connection)}
    found: defaultdict[int | None, int] = defaultdict(int)
    treasury = 0
    for account in account_store.holding(connection):
        if account.kind is AccountKind.TREASURY:
            treasury = account.balance
        elif account.owner is not None:
            found[groups.get(account.owner)] += account.balance
    return found, treasury
