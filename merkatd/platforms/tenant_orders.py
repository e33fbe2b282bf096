"""Tenants' orders on platforms: submit, change, suspend, resume, stop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd import ledger
from merkatd.base.quantities import credits_text, utc_text
from merkatd.currency import micro
from merkatd.currency.settings import MoneySettings
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.fleets.vm_template_source import vm_template
from merkatd.fleets.vm_template_text import Ask, TemplateError, canonical, size, template_problem
from merkatd.ledger import LedgerError, NotFoundError
from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.lifecycle.funds import earliest_start_s, platform_funds, terms_of
from merkatd.platforms.lifecycle.platform_orders import reserve_of
from merkatd.platforms.lifecycle.platform_template import PlatformTemplate
from merkatd.platforms.lifecycle.template_checks import new_deadline_problems
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.lifecycle.transitions import record_transition
from merkatd.platforms.rules.lifecycle_events import (
    ENDS,
    WAITING,
    Event,
    LifecycleEvent,
    PlatformState,
)
from merkatd.platforms.rules.start_conditions import (
    MarketOffer,
    StartAnswer,
    StartVerdict,
    cost_of_all,
    judge_start,
    limit_of,
)
from merkatd.protocol.platform_messages import MOST_VMS
from merkatd.scheduler.base.settings import ALL_GOODS, MarketRules


async def fetched_vm_templates(
    template: PlatformTemplate, ask: Ask, *, admin: bool, owner: int
) -> dict[str, str]:
    """Return the text of the VM template by cluster, for VMs of this owner. Raise TemplateError."""
    return {
        cluster.name: await vm_template(
            f"cluster {cluster.name}: ", cluster, ask, admin=admin, owner=owner
        )
        for cluster in template.clusters
    }


MOST_LIVING = 100
"""The limit of platforms of one tenant that have not ended."""


class OrderError(LedgerError):
    """The order is refused; the message says what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A template and the owner of its future platform."""

    token: str
    """The submission's id: a repeated submission counts once."""
    owner: int
    text: str
    template: PlatformTemplate
    """The template parsed from the text."""
    vm_templates: Mapping[str, str]
    """The texts of VM templates, by cluster."""
    who: str
    most_processes: int | None = None
    """The limit of processes for all platforms of the owner; None for no limit."""


def submit(
    connection: sa.Connection, given: Submission, money: MoneySettings, at_s: float
) -> PlatformRow:
    """Store a new platform with its application's id and budget. Raise LedgerError."""
    template = given.template
    ledger.open_tenant(connection, given.owner, money, at_s)
    # Locked rows are current: a platform that was submitted at the same moment counts too.
    living = platform_store.living(connection, given.owner, lock=True)
    before = next((order for order in living if order.token == given.token), None)
    before = before or platform_store.submitted(connection, given.token)
    if before is not None:
        return before
    if len(living) >= MOST_LIVING:
        raise OrderError(
            f"a tenant can have at most {MOST_LIVING} platforms that have not ended: stop a"
            " platform first"
        )
    _check_processes(template, living, given.most_processes)
    _check_vms(template, living)
    deadline = template.goal.deadline
    budget = ledger.open_numbered_application(
        connection,
        given.owner,
        template.name,
        given.token,
        micro(template.budget.credits),
        micro(template.budget.replenishment),
        at_s,
    )
    stored = platform_store.add(
        connection,
        PlatformRow(
            id=budget.application,
            token=given.token,
            owner=given.owner,
            name=template.name,
            account=budget.application,
            template=given.text,
            vm_templates=given.vm_templates,
            state=PlatformState.SUBMITTED,
            why="its conditions were not checked yet",
            submitted_s=at_s,
            since_s=at_s,
            deadline_s=None if deadline is None else deadline.seconds(at_s),
            sizes={cluster.name: cluster.initial for cluster in template.clusters},
        ),
    )
    _note(
        connection, stored, at_s, given.who, PlatformState.SUBMITTED, f"with {_credits(template)}"
    )
    return require_platform(connection, stored.id)


def require_platform(connection: sa.Connection, platform: int, *, lock: bool = True) -> PlatformRow:
    """Return the platform with this id, locked by default. Raise NotFoundError if none has it.

    Views must not lock it: they would make the period's review wait, and wait for it.
    """
    find = platform_store.locked if lock else platform_store.get
    row = find(connection, platform)
    if row is None:
        raise NotFoundError(f"platform {platform} does not exist")
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A tenant's changes; None leaves a value unchanged."""

    deadline: TemplateTime | None = None
    """The new deadline, absolute or relative to now."""
    budget: float | None = None
    replenishment: float | None = None
    performance: float | None = None
    """The new target in the controller's own measure."""


def update(
    connection: sa.Connection, platform: int, new: Update, token: str, who: str, at_s: float
) -> PlatformRow:
    """Change a platform's goals and budget from now on, and return it. Raise LedgerError."""
    row = require_platform(connection, platform)
    if PlatformState(row.state) in {*ENDS, PlatformState.STOPPING}:
        raise OrderError(f"platform {platform} is {row.state}")
    changes = []
    if new.deadline is not None:
        deadline_s = new.deadline.seconds(at_s)
        template = parsed(row.template)
        earliest = earliest_start_s(row, template)
        for why in new_deadline_problems(template, deadline_s, earliest, row.submitted_s, at_s):
            raise OrderError(why)
        platform_store.change(connection, platform, deadline_s=deadline_s)
        changes.append(f"deadline {utc_text(deadline_s)}")
    if new.performance is not None:
        platform_store.change(connection, platform, performance=new.performance)
        changes.append(f"performance {new.performance:g}")
    if (new.budget is not None or new.replenishment is not None) and row.account is not None:
        changed = ledger.set_budget(
            connection,
            row.account,
            None if new.budget is None else micro(new.budget),
            None if new.replenishment is None else micro(new.replenishment),
            token,
            who,
            at_s,
        )
        initial, refill = changed.initial / ledger.MICRO, changed.replenishment / ledger.MICRO
        changes.append(f"budget {credits_text(initial)}, replenishment {credits_text(refill)}")
    if not changes:
        raise OrderError(
            "an update must change a deadline, a performance, a budget or a replenishment"
        )
    _note(connection, row, at_s, who, "update", "; ".join(changes))
    return require_platform(connection, platform)


def suspend(connection: sa.Connection, platform: int, who: str, at_s: float) -> PlatformRow:
    """Suspend a platform until its tenant resumes it; a waiting platform does not start before.

    Raise LedgerError.
    """
    row = require_platform(connection, platform)
    if PlatformState(row.state) in {*ENDS, PlatformState.STOPPING}:
        raise OrderError(f"platform {platform} is {row.state}")
    platform_store.change(connection, platform, held=True)
    if PlatformState(row.state) in WAITING:
        _note(connection, row, at_s, who, "hold", f"{who} paused it before its start")
    event = LifecycleEvent(event=Event.SUSPEND, why=f"{who} suspended it")
    record_transition(connection, row, event, at_s, who)
    return require_platform(connection, platform)


def resume(connection: sa.Connection, platform: int, who: str, at_s: float) -> PlatformRow:
    """Resume a platform now, whatever the price; a waiting one still waits for its conditions.

    Raise LedgerError.
    """
    row = require_platform(connection, platform)
    if row.held and PlatformState(row.state) in WAITING:
        platform_store.change(connection, platform, held=False)
        _note(connection, row, at_s, who, "release", f"{who} ended the pause before its start")
        return require_platform(connection, platform)
    event = LifecycleEvent(event=Event.RESUME, why=f"{who} resumed it")
    if record_transition(connection, row, event, at_s, who).state == row.state:
        raise OrderError(f"platform {platform} is {row.state}: there is nothing to resume")
    platform_store.change(connection, platform, held=False)
    return require_platform(connection, platform)


def stop(connection: sa.Connection, platform: int, who: str, at_s: float) -> PlatformRow:
    """End a platform. Raise LedgerError."""
    row = require_platform(connection, platform)
    if PlatformState(row.state) in {*ENDS, PlatformState.STOPPING}:
        raise OrderError(f"platform {platform} is {row.state}")
    event = LifecycleEvent(
        event=Event.STOP, why=f"{who} stopped it", ending=PlatformState.CANCELLED
    )
    record_transition(connection, row, event, at_s, who)
    return require_platform(connection, platform)


def end_of_removed(connection: sa.Connection, owner: int, at_s: float) -> str | None:
    """Stop all platforms of a removed user; describe those that still have to end, if any."""
    event = LifecycleEvent(
        event=Event.STOP, why="OpenNebula has removed its user", ending=PlatformState.CANCELLED
    )
    left = [
        row.id
        for row in platform_store.living(connection, owner, lock=True)
        if PlatformState(record_transition(connection, row, event, at_s, "OpenNebula").state)
        not in ENDS
    ]
    return f"its platforms ({', '.join(map(str, left))}) have ended" if left else None


@dataclass(frozen=True, slots=True)
class Outlook:
    """A platform's outlook at present prices."""

    judged: StartVerdict
    full_cost: float
    """Credits per period for the full size of its VMs."""
    limit: float | None = None
    """The limit that a patient platform would state now; None for others."""


def outlook(
    connection: sa.Connection,
    platform: PlatformRow,
    prices: Mapping[str, Mapping[str, float]] | None,
    interval_s: float,
    replenishment_s: float,
    markets: Sequence[MarketRules],
    now_s: float,
    capacity: Mapping[str, Mapping[str, float]] | None = None,
) -> Outlook:
    """Return whether a platform could start or go on at present prices, and the missing needs."""
    template = parsed(platform.template)
    budget = None if platform.account is None else ledger.budget_of(connection, platform.account)
    terms = terms_of(platform, template, platform_funds(budget, replenishment_s))
    market = market_of(template, markets)
    offer = MarketOffer(
        now_s=now_s,
        interval_s=interval_s,
        prices=None if prices is None else prices.get(market.name),
        capacity=None if capacity is None else capacity.get(market.name),
        reserve=reserve_of(market, ALL_GOODS),
        free=market.is_free,
    )
    over = PlatformState(platform.state) in {*ENDS, PlatformState.STOPPING}
    verdict = StartVerdict(StartAnswer.START) if over else judge_start(terms, offer)
    limit = limit_of(terms, offer) if terms.patient and not over else None
    return Outlook(verdict, cost_of_all(terms, offer), limit)


def _check_processes(
    template: PlatformTemplate, living: Sequence[PlatformRow], most: int | None
) -> None:
    """Raise OrderError if the tenant's platforms would have too many processes."""
    running = sum(parsed(platform.template).processes for platform in living)
    if most is not None and template.processes and running + template.processes > most:
        raise OrderError(
            f"a tenant's platforms can have at most {most} controllers and monitors together"
            f" (yours have {running}, this one needs {template.processes}): stop another platform"
            " first"
        )


def _check_vms(template: PlatformTemplate, living: Sequence[PlatformRow]) -> None:
    """Raise OrderError if the tenant's platforms could grow to too many VMs."""
    there = sum(parsed(platform.template).most_vms for platform in living)
    if there + template.most_vms > MOST_VMS:
        raise OrderError(
            f"`most` of all clusters of a tenant's platforms must be at most {MOST_VMS} VMs"
            f" together (got {template.most_vms}, and your other platforms have {there}): stop"
            " another platform first, or lower `most`"
        )


def canonical_vm_templates(template: PlatformTemplate, given: Mapping[str, str]) -> dict[str, str]:
    """Return the VM template of every cluster in canonical form. Raise TemplateError.

    `given` are the texts of OpenNebula's templates. Call it outside of transactions: parsing
    sixteen texts takes a large part of a second.
    """
    texts: dict[str, str] = {}
    for cluster in template.clusters:
        text = given.get(cluster.name, cluster.template)
        if text is None:
            raise TemplateError([f"cluster {cluster.name}: its VM template could not be read"])
        problem = template_problem(text)
        if problem is not None:
            raise TemplateError([f"cluster {cluster.name}: its VM template: {problem}"])
        texts[cluster.name] = canonical(text)
        size(texts[cluster.name])  # fills the cache of sizes
    return texts


def _credits(template: PlatformTemplate) -> str:
    refill = credits_text(template.budget.replenishment)
    return f"{credits_text(template.budget.credits)} credits, replenishment {refill}"


def _note(
    connection: sa.Connection, platform: PlatformRow, at_s: float, who: str, what: str, text: str
) -> None:
    platform_store.add_action(
        connection,
        PlatformAction(platform=platform.id, at_s=at_s, who=who, what=str(what), text=text),
    )
