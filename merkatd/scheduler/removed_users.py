"""Removed users: retiring the tenants whose users no longer exist in OpenNebula.

A tenant counts as removed if the pool of users was read without its user, and OpenNebula says that
the user id does not exist, both twice, in periods an interval apart. An error, or an unread pool,
proves nothing. The daemon ends the platforms and groups of a removed user. Its own VMs stay: an
administrator terminates them or gives them to another user. Once nothing is left and no charge is
due, the same transaction retires the tenant.

If most tenants are missing at once, another OpenNebula may have answered, or one restored from an
old backup. The daemon then retires them only after a full day.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd import ledger
from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.ledger import tenant_store
from merkatd.database.ledger.tenant_store import TenantRow
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed

ASKED = 20
"""The most users about whom OpenNebula is asked in a period."""
SHOWN = 20
"""The most retired tenants that are shown; the log and the notes have all of them."""
_VMS_NAMED = 5
MANY, MOST = 3, 0.5
"""The number and the part of tenants up to which missing users are retired without the delay."""
CERTAIN_S = 86_400.0
_NEARLY = 0.9
"""The part of an interval that counts as a whole one: real intervals differ."""
_DOUBTED = (
    "most users are missing at once: check that this is the same OpenNebula;"
    " the tenant is retired in {hours:.0f} h"
)

_log = Logger()


@dataclass(frozen=True, slots=True)
class _Found:
    """The result for one removed user in one transaction."""

    retired: ledger.RetirementResult | None
    left: str
    """A description of the remaining belongings."""


class RemovedUsers:
    """Finds and retires the tenants of removed users after each period."""

    def __init__(self) -> None:
        self.waiting: Mapping[int, str] = {}
        """By user id: what delays the retirement of a removed user's tenant."""
        self.retired: dict[int, str] = {}
        """By user id: the tenants that were retired last."""
        self.count = 0
        """The number of tenants retired since the daemon started."""
        self._once: frozenset[int] = frozenset()
        """Users that did not exist at the first check."""
        self._once_s = 0.0
        """The time of that check."""
        self._gone: frozenset[int] = frozenset()
        """Users that did not exist at the second check either."""
        self._many_since_s: float | None = None

    def forget(self) -> None:
        """Start the checks again: another daemon acted in between."""
        self._once = self._gone = frozenset()
        self._many_since_s = None
        self.waiting = {}

    async def look(self, context: PeriodContext, observed: Observed) -> None:
        """Retire the tenants of removed users once all their belongings have ended."""
        shown = observed.observation.owner_name
        if not shown:
            return  # the pool of users was not read
        known = {tenant.owner: tenant for tenant in await context.database.read(tenant_store.every)}
        absent = known.keys() - shown.keys()
        late = await context.database.read(ledger.holding)
        candidates = {owner for owner in absent if known[owner].retired_s is None}
        lasts_s = self._many_for(context, candidates, known)
        if lasts_s is not None:
            reason = _DOUBTED.format(hours=np.ceil(lasts_s / 3600))
            self.waiting = dict.fromkeys(sorted(candidates)[:SHOWN], reason)
            return
        await self._ask(context, candidates)
        todo = (self._gone & candidates) | (absent & set(late))
        if not todo:
            self.waiting = {}
            return
        at_s = context.now()
        earlier: dict[int, ledger.RetirementResult] = {}
        outcomes, failed = await context.database.run(
            lambda c: _ended(c, context, observed, sorted(todo), at_s, earlier)
        )
        context.troubles.note(TroubleKind.TENANT, "retired", failed)
        self._tell(outcomes, known)

    def _many_for(
        self, context: PeriodContext, missing: Collection[int], known: Mapping[int, TenantRow]
    ) -> float | None:
        """Return the remaining delay in seconds if too many users are missing at once, or None."""
        there = sum(tenant.retired_s is None for tenant in known.values())
        if len(missing) <= max(MANY, MOST * there):
            self._many_since_s = None
            return None
        now_s = context.clock.seconds()
        if self._many_since_s is None:
            self._many_since_s = now_s
            _log.error(
                "The users of {missing} of {there} tenants are missing in OpenNebula. Check that it"
                " is the same OpenNebula as before. If this lasts for a day, they are retired",
                missing=len(missing),
                there=there,
            )
        left_s = self._many_since_s + CERTAIN_S - now_s
        return left_s if left_s > 0 else None

    async def _ask(self, context: PeriodContext, candidates: Collection[int]) -> None:
        """Ask OpenNebula twice about each candidate; an error proves nothing."""
        self._gone &= frozenset(candidates)
        now_s = context.clock.seconds()
        if self._once and 0.0 < now_s - self._once_s < _NEARLY * context.rhythm.interval_s:
            return  # a second answer within moments proves no more than the first
        open_ = frozenset(candidates) - self._gone
        # Users that were missing once come first, so that the second check follows in the next
        # period.
        asked = sorted(open_, key=lambda owner: (owner not in self._once, owner))[:ASKED]
        try:
            missing = await context.missing_users(asked) if asked else frozenset()
        except CloudUnreachableError as error:
            _log.warn("The check for removed users is retried later: {why}", why=str(error))
            self._once = frozenset()
            return
        self._gone |= missing & self._once
        self._once, self._once_s = missing - self._gone, now_s

    def _tell(self, outcomes: Mapping[int, _Found], known: Mapping[int, TenantRow]) -> None:
        waiting: dict[int, str] = {}
        for owner, tenant in outcomes.items():
            name = f"{owner} ({known[owner].name})" if known[owner].name else str(owner)
            if tenant.retired is None:
                waiting[owner] = tenant.left
                if owner not in self.waiting:
                    _log.warn(
                        "OpenNebula has removed user {name}: its tenant is retired once {left}",
                        name=name,
                        left=tenant.left,
                    )
                continue
            _log.warn("Tenant {name}: {what}", name=name, what=str(tenant.retired))
            self.count += known[owner].retired_s is None
            self.retired.pop(owner, None)
            self.retired[owner] = str(tenant.retired)
            while len(self.retired) > SHOWN:
                del self.retired[next(iter(self.retired))]
        self.waiting = waiting


def _ended(
    connection: sa.Connection,
    context: PeriodContext,
    observed: Observed,
    owners: Collection[int],
    at_s: float,
    earlier: dict[int, ledger.RetirementResult],
) -> tuple[dict[int, _Found], Mapping[int, Exception]]:
    """Return the ended and the remaining belongings by owner; and the errors by owner.

    `earlier` keeps the results for the case that this transaction runs again after its commit.
    """
    apart = SeparateWork(connection)
    waits = _Found(None, "the daemon has ended its belongings; the log shows why that failed")
    outcomes = {
        owner: apart.run(
            owner, partial(_end, connection, context, observed, owner, at_s, earlier), waits
        )
        for owner in owners
    }
    return outcomes, apart.failed


def _end(
    connection: sa.Connection,
    context: PeriodContext,
    observed: Observed,
    owner: int,
    at_s: float,
    earlier: dict[int, ledger.RetirementResult],
) -> _Found:
    left = [words for ending in context.endings if (words := ending(connection, owner, at_s))]
    vms = observed.observation.vm_id[observed.observation.vm_owner == owner]
    if len(vms):
        left.append(_of_vms(vms.tolist()))
    retired = None if left else _retired(connection, owner, at_s, earlier)
    if retired is None and not left:
        left.append("the charge of the present period is made")
    return _Found(retired, " and ".join(left))


def _retired(
    connection: sa.Connection,
    owner: int,
    at_s: float,
    earlier: dict[int, ledger.RetirementResult],
) -> ledger.RetirementResult | None:
    """Retire a tenant, or return the earlier result if that was committed without a reply."""
    known = tenant_store.get(connection, owner)
    is_done = known is not None and known.retired_s is not None
    if is_done and owner in earlier and owner not in ledger.holding(connection):
        return earlier[owner]
    result = ledger.retire(connection, owner, at_s)
    if result is not None:
        earlier[owner] = result
    return result


def _of_vms(vms: list[int]) -> str:
    named = ", ".join(map(str, sorted(vms)[:_VMS_NAMED]))
    more = f" and {len(vms) - _VMS_NAMED} more" if len(vms) > _VMS_NAMED else ""
    return (
        f"its VMs ({named}{more}) are gone: terminate them or give them to another user"
        " (`onevm chown`)"
    )
