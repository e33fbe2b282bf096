"""Where applications stand: the utility, what it predicts, and what the goal takes of whom.

Only a strategy that states its own allocations knows this. It is asked at the first question about
a period, as it costs as much as the decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.base.deferreds import SharedResult
from merkatd.cluster import Ints
from merkatd.cluster.columns import NO_MARKET
from merkatd.cluster.snapshot import view_of_market
from merkatd.database.ledger import budget_store
from merkatd.placement.contract import Standing
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import USE, Caller, CallerRights
from merkatd.service.base.errors import UnknownObjectError
from merkatd.service.base.period_view import PeriodView
from merkatd.service.base.read_runner import ReadRunner, run_at_once
from merkatd.service.base.visibility import permitted_vm_row

Standings = Mapping[int, Standing]
MOST_NAMED = 10
"""The most applications that an explanation names."""

_log = Logger()


@dataclass(frozen=True, slots=True)
class ExplainedApplication:
    """Where an application stands."""

    application: int
    name: str | None
    owner: int | None
    owner_name: str | None
    market: str | None
    period: int
    at_s: float
    vms: int
    utility: float | None
    """Its utility; None if its strategy knows none."""
    sentence: str
    """Its utility, what it predicts, and what its goal takes."""
    payers: Sequence[str] | None
    """The applications that would have less if it got what its goal takes, at most ten; None for
    callers that are not administrators."""


class ApplicationStandings:
    """The standings of all applications in the latest period."""

    def __init__(self, scheduler: Scheduler, rights: CallerRights) -> None:
        self._scheduler = scheduler
        self._rights = rights
        self._of: PeriodView | None = None
        self._known: dict[int, SharedResult[Standings]] = {}

    async def explain(
        self,
        caller: Caller,
        view: PeriodView,
        application: int,
        run: ReadRunner = run_at_once,
    ) -> ExplainedApplication:
        """Return where an application stands. Raise RequestError."""
        rows = np.flatnonzero(view.snapshot.vms.application == application)
        if application < 0 or not len(rows):
            raise UnknownObjectError(
                f"application {application} has no VMs in period {view.snapshot.period}",
                application,
            )
        first = int(view.snapshot.vms.id[rows[0]])
        await permitted_vm_row(self._rights, caller, view, first, USE)
        return await run(lambda: self._explained(caller, view, application, rows))

    async def of_vm(self, view: PeriodView, row: int) -> Standing | None:
        """Return where the application of the VM in this row stands, or None if nothing is known.

        Every decision about a period is asked once.
        """
        market = view.market_of(row)
        entry = view.strategy_of(market)
        if entry is None or entry.explain is None:
            return None
        if self._of is not view:
            self._of, self._known = view, {}
        if market not in self._known or self._known[market].failed:
            self._known[market] = SharedResult(self._of_market(view, market))
        known = await self._known[market].result()
        return known.get(int(view.snapshot.vms.application[row]))

    async def _of_market(self, view: PeriodView, market: int) -> Standings:
        return await self._scheduler.world.executor.run(partial(standings_of, view, market))

    async def _explained(
        self, caller: Caller, view: PeriodView, application: int, rows: Ints
    ) -> ExplainedApplication:
        vms, row = view.snapshot.vms, int(rows[0])
        standing = await self.of_vm(view, row)
        payers = standing.payers[:MOST_NAMED] if standing is not None and caller.is_admin else ()
        names = await self._scheduler.world.database.read(
            partial(_names, numbers=(application, *payers))
        )
        owner, market = int(vms.owner[row]), view.market_of(row)
        who = f"Application {_named(application, names)}"
        words = _unknown(view, market) if standing is None else standing.words
        return ExplainedApplication(
            application=application,
            name=names.get(application),
            owner=None if owner < 0 else owner,
            owner_name=view.owner_names.get(owner),
            market=view.market_name(market),
            period=view.snapshot.period,
            at_s=view.at_s,
            vms=len(rows),
            utility=None if standing is None else standing.utility,
            sentence=f"{who} {words}.",
            payers=[_named(each, names) for each in payers] if caller.is_admin else None,
        )


def standings_of(view: PeriodView, market: int) -> Standings:
    """Return the standings of the applications in a market, by number.

    An error in the strategy is logged, and leaves them unknown.
    """
    entry = view.strategy_of(market)
    if entry is None or entry.explain is None or view.basis is None:
        return {}
    of_market = view.basis.markets[market]
    if of_market.name in view.decision.failed:
        return {}
    seen = view_of_market(view.decision.decided_from or view.snapshot, market)
    try:
        return entry.explain(seen, of_market.settings, of_market.memory)
    except Exception:  # noqa: BLE001 - a strategy can be of any origin
        _log.failure(
            "Strategy {strategy} could not explain its decision for market {market}",
            strategy=entry.name,
            market=of_market.name,
        )
        return {}


def _unknown(view: PeriodView, market: int) -> str:
    """Return the verb phrase for an application about which the strategy says nothing."""
    entry = view.strategy_of(market)
    if market == NO_MARKET or entry is None:
        return "has no utility: it belongs to no market"
    if view.market_name(market) in view.decision.failed:
        return "has no utility: the strategy of its market failed in this period"
    if entry.explain is None:
        return f"has no utility: strategy {entry.name} of its market knows none"
    return "has no utility: it declares no job and no service"


def _names(connection: sa.Connection, numbers: Sequence[int]) -> Mapping[int, str]:
    accounts = {number: budget_store.get(connection, number) for number in numbers}
    return {number: its.name for number, its in accounts.items() if its is not None and its.name}


def _named(number: int, names: Mapping[int, str]) -> str:
    return f"{number} ({names[number]})" if number in names else str(number)
