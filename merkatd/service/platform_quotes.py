"""Quotes of patient platforms before their submission: which limit starts them, and its odds."""

from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.base.quantities import quoted_value
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.platforms.lifecycle.funds import usable_by_all
from merkatd.platforms.lifecycle.platform_template import PATIENT, PlatformTemplate
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.platform_views import PlatformDetails
from merkatd.protocol.platform_messages import Amounts
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import QuotedView
from merkatd.service.limit_quotes import LimitQuoteService, QuotedLimit
from merkatd.service.platforms import PlatformService


@dataclass(frozen=True, slots=True)
class QuotedPlatform:
    """The quote of a platform's limit order."""

    size: int
    """The number of its VMs."""
    limit: float | None
    """The limit that the platform would state now; None if it would not start."""
    takes: str
    """The reason not to start now, and the condition for a start; empty if it would start."""
    order: QuotedLimit


class PlatformQuoteService:
    """The quotes of templates."""

    def __init__(
        self, scheduler: Scheduler, platforms: PlatformService, limits: LimitQuoteService
    ) -> None:
        self._scheduler = scheduler
        self._platforms = platforms
        self._limits = limits

    async def quote(
        self, caller: Caller, view: QuotedView, owner: int, text: str
    ) -> QuotedPlatform:
        """Return the quote of a template, with the checks of a submission. Raise RequestError."""

        def tell(connection: sa.Connection, row: PlatformRow) -> tuple[PlatformDetails, Amounts]:
            details = self._platforms.view(connection, row)
            return details, usable_by_all(row, parsed(row.template))

        details, amounts = await self._platforms.tried(caller, owner, text, tell, _require_patient)
        work_s, within_s = details.ideal_s, None
        if details.deadline_s is not None:
            within_s = details.deadline_s - self._scheduler.world.now()
        times = (work_s, within_s) if work_s and within_s and within_s > 0 else (None, None)
        quoted = await self._limits.quote_planned(
            view, details.market, amounts, details.limit or None, times
        )
        return QuotedPlatform(details.size, details.limit, details.takes, quoted)


def _require_patient(template: PlatformTemplate) -> None:
    """Raise InvalidRequestError if a template's platform states no limit order."""
    if template.controller != PATIENT:
        raise InvalidRequestError(
            f"template: controller must be {PATIENT} for a quote (got"
            f" {quoted_value(template.controller)}): the VMs of other platforms bid, and"
            " state no limit order"
        )
