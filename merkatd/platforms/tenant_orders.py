"""What tenants order: submit, change, suspend, resume, stop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd import ledger
from merkatd.base.quantities import amount_text, utc_text
from merkatd.currency import micro
from merkatd.currency.settings import MoneySettings
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.fleets.vm_template_source import vm_template
from merkatd.fleets.vm_template_text import Ask, TemplateError, canonical, size, template_problem
from merkatd.ledger import LedgerError, NotFoundError
from merkatd.platforms.lifecycle.funds import platform_funds, terms_of
from merkatd.platforms.lifecycle.platform_template import PlatformTemplate, TemplateTime
from merkatd.platforms.lifecycle.start_conditions import (
    MarketOffer,
    StartAnswer,
    StartVerdict,
    cost_of_all,
    judge_start,
)
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.lifecycle.transitions import (
    ENDS,
    WAITING,
    Event,
    LifecycleEvent,
    PlatformState,
    record_transition,
)
from merkatd.policies.patience import Book
from merkatd.protocol.platform_messages import MOST_VMS
from merkatd.scheduler.base.settings import MarketRules


async def fetched_vm_templates(
    template: PlatformTemplate, ask: Ask, *, admin: bool
) -> dict[str, str]:
    """By cluster: the lines of its VM template. Raises TemplateError."""
    return {
        cluster.name: await vm_template(f"cluster {cluster.name}: ", cluster, ask, admin=admin)
        for cluster in template.clusters
    }


MOST_LIVING = 100
"""Platforms of one tenant that are not over."""


class OrderError(LedgerError):
    """It can't be done; the message says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A template, and whose platform it is to become."""

    token: str
    """The same submission counts once."""
    owner: int
    text: str
    template: PlatformTemplate
    """What the text says."""
    vm_templates: Mapping[str, str]
    """By cluster."""
    who: str
    most_processes: int | None = None
    """How many processes all platforms of the owner may have; None: any number."""


def submit(
    connection: sa.Connection, given: Submission, money: MoneySettings, at_s: float
) -> PlatformRow:
    """A new platform, its budget moved to an account of its own. Raises LedgerError."""
    before = platform_store.submitted(connection, given.token)
    if before is not None:
        return before
    template = given.template
    ledger.open_tenant(connection, given.owner, money, at_s)
    living = platform_store.living(connection, given.owner)
    if len(living) >= MOST_LIVING:
        raise OrderError(f"a tenant has at most {MOST_LIVING} platforms that are not over")
    _check_processes(template, living, given.most_processes)
    _check_vms(template, living)
    deadline = template.goal.deadline
    stored = platform_store.add(
        connection,
        PlatformRow(
            token=given.token,
            owner=given.owner,
            name=template.name,
            account=None,
            template=given.text,
            vm_templates=given.vm_templates,
            state=PlatformState.SUBMITTED,
            why="its conditions were not looked at yet",
            submitted_s=at_s,
            since_s=at_s,
            deadline_s=None if deadline is None else deadline.seconds(at_s),
            sizes={one.name: one.initial for one in template.clusters},
        ),
    )
    budget = ledger.open_application(
        connection,
        given.owner,
        f"{template.name}-{stored.id}",
        micro(template.budget.credits),
        micro(template.budget.replenishment),
        at_s,
    )
    platform_store.change(connection, stored.id, account=budget.application)
    _note(
        connection, stored, at_s, given.who, PlatformState.SUBMITTED, f"with {_credits(template)}"
    )
    return require_platform(connection, stored.id)


def require_platform(connection: sa.Connection, platform: int) -> PlatformRow:
    """The platform of this id. Raises NotFoundError."""
    one = platform_store.locked(connection, platform)
    if one is None:
        raise NotFoundError(f"there is no platform {platform}")
    return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What is to be different; None stays."""

    deadline: TemplateTime | None = None
    """After now, or a certain time."""
    budget: float | None = None
    replenishment: float | None = None
    performance: float | None = None
    """In its controller's own measure."""


def update(
    connection: sa.Connection, platform: int, new: Update, token: str, who: str, at_s: float
) -> PlatformRow:
    """Change what it is to reach, and what it may spend, from now on. Raises LedgerError."""
    one = require_platform(connection, platform)
    if PlatformState(one.state) in {*ENDS, PlatformState.STOPPING}:
        raise OrderError(f"platform {platform} is {one.state}")
    said = []
    if new.deadline is not None:
        deadline_s = new.deadline.seconds(at_s)
        if deadline_s <= at_s:
            raise OrderError(f"deadline: {utc_text(deadline_s)} has passed")
        platform_store.change(connection, platform, deadline_s=deadline_s)
        said.append(f"deadline {utc_text(deadline_s)}")
    if new.performance is not None:
        platform_store.change(connection, platform, performance=new.performance)
        said.append(f"performance {new.performance:g}")
    if (new.budget is not None or new.replenishment is not None) and one.account is not None:
        changed = ledger.set_budget(
            connection,
            one.account,
            None if new.budget is None else micro(new.budget),
            None if new.replenishment is None else micro(new.replenishment),
            token,
            who,
            at_s,
        )
        said.append(
            f"budget {amount_text(changed.initial / ledger.MICRO)}, replenishment"
            f" {amount_text(changed.replenishment / ledger.MICRO)}"
        )
    if not said:
        raise OrderError("a deadline, a performance, a budget or a replenishment is right")
    _note(connection, one, at_s, who, "update", "; ".join(said))
    return require_platform(connection, platform)


def suspend(connection: sa.Connection, platform: int, who: str, at_s: float) -> PlatformRow:
    """Suspend it until its tenant resumes it; one that waits to start waits for that too."""
    one = require_platform(connection, platform)
    if PlatformState(one.state) in {*ENDS, PlatformState.STOPPING}:
        raise OrderError(f"platform {platform} is {one.state}")
    platform_store.change(connection, platform, held=True)
    if PlatformState(one.state) in WAITING:
        _note(connection, one, at_s, who, "hold", "its tenant holds it back")
    event = LifecycleEvent(event=Event.SUSPEND, why="its tenant suspended it")
    record_transition(connection, one, event, at_s, who)
    return require_platform(connection, platform)


def resume(connection: sa.Connection, platform: int, who: str, at_s: float) -> PlatformRow:
    """Resume it now, whatever the price; one that was held back waits for the rest."""
    one = require_platform(connection, platform)
    if one.held and PlatformState(one.state) in WAITING:
        platform_store.change(connection, platform, held=False)
        _note(connection, one, at_s, who, "release", "its tenant holds it back no longer")
        return require_platform(connection, platform)
    event = LifecycleEvent(event=Event.RESUME, why="its tenant resumed it")
    if record_transition(connection, one, event, at_s, who).state == one.state:
        raise OrderError(f"platform {platform} is {one.state}: there is nothing to resume")
    platform_store.change(connection, platform, held=False)
    return require_platform(connection, platform)


def stop(connection: sa.Connection, platform: int, who: str, at_s: float) -> PlatformRow:
    """End it. Raises LedgerError."""
    one = require_platform(connection, platform)
    if PlatformState(one.state) in {*ENDS, PlatformState.STOPPING}:
        raise OrderError(f"platform {platform} is {one.state}")
    event = LifecycleEvent(
        event=Event.STOP, why="its tenant stopped it", ending=PlatformState.CANCELLED
    )
    record_transition(connection, one, event, at_s, who)
    return require_platform(connection, platform)


def end_of_removed(connection: sa.Connection, owner: int, at_s: float) -> str | None:
    """Stop all platforms of a removed user; return what is still to end, in words."""
    event = LifecycleEvent(
        event=Event.STOP, why="OpenNebula has removed its user", ending=PlatformState.CANCELLED
    )
    left = [
        one.id
        for one in platform_store.living(connection)
        if one.owner == owner
        and PlatformState(record_transition(connection, one, event, at_s, "OpenNebula").state)
        not in ENDS
    ]
    return f"its platforms ({', '.join(map(str, left))}) have ended" if left else None


@dataclass(frozen=True, slots=True)
class Outlook:
    """What present prices mean for a platform."""

    judged: StartVerdict
    full_cost: float
    """Credits for a period in which its VMs get all they can use."""


def outlook(
    connection: sa.Connection,
    one: PlatformRow,
    prices: Mapping[str, Mapping[str, float]] | None,
    interval_s: float,
    replenishment_s: float,
    markets: Sequence[MarketRules],
    now_s: float,
    book: Book | None = None,
    capacity: Mapping[str, Mapping[str, float]] | None = None,
) -> Outlook:
    """Whether it could start, or go on as it is to, at present prices, and what it would take."""
    template = parsed(one.template)
    budget = None if one.account is None else ledger.budget_of(connection, one.account)
    terms = terms_of(one, template, platform_funds(budget, replenishment_s))
    market = market_of(template, markets)
    offer = MarketOffer(
        now_s=now_s,
        interval_s=interval_s,
        prices=None if prices is None else prices.get(market.name),
        capacity=(capacity or {}).get(market.name),
        book=book,
    )
    over = PlatformState(one.state) in {*ENDS, PlatformState.STOPPING}
    found = StartVerdict(StartAnswer.START) if over else judge_start(terms, offer)
    return Outlook(found, cost_of_all(terms, offer))


def _check_processes(
    template: PlatformTemplate, living: Sequence[PlatformRow], most: int | None
) -> None:
    """Raise OrderError if the tenant's platforms would have too many processes."""
    running = sum(parsed(one.template).processes for one in living)
    if most is not None and template.processes and running + template.processes > most:
        raise OrderError(
            f"a tenant's platforms have at most {most} controllers and monitors together"
            f" (yours have {running}, this one needs {template.processes}): stop another one first"
        )


def _check_vms(template: PlatformTemplate, living: Sequence[PlatformRow]) -> None:
    """Raise OrderError if the tenant's platforms could grow to too many VMs."""
    there = sum(parsed(one.template).most_vms for one in living)
    if there + template.most_vms > MOST_VMS:
        raise OrderError(
            f"`most` of all clusters of a tenant's platforms must be at most {MOST_VMS} VMs"
            f" together (got {template.most_vms}, and your other platforms have {there}): stop"
            " another platform first, or lower `most`"
        )


def canonical_vm_templates(template: PlatformTemplate, given: Mapping[str, str]) -> dict[str, str]:
    """Every cluster's own words; `given` are those that are OpenNebula's. Raise TemplateError.

    It is called outside of transactions: to parse sixteen texts takes a good part of a second.
    """
    texts: dict[str, str] = {}
    for cluster in template.clusters:
        text = given.get(cluster.name, cluster.template)
        if text is None:
            raise TemplateError([f"cluster {cluster.name}: nobody could read its VM template"])
        problem = template_problem(text)
        if problem is not None:
            raise TemplateError([f"cluster {cluster.name}: its VM template: {problem}"])
        texts[cluster.name] = canonical(text)
        size(texts[cluster.name])  # from now on it is known
    return texts


def _credits(template: PlatformTemplate) -> str:
    budget = template.budget
    replenishment = amount_text(budget.replenishment)
    return f"{amount_text(budget.credits)} credits, replenishment {replenishment}"


def _note(
    connection: sa.Connection, one: PlatformRow, at_s: float, who: str, what: str, text: str
) -> None:
    platform_store.add_action(
        connection, PlatformAction(platform=one.id, at_s=at_s, who=who, what=str(what), text=text)
    )
