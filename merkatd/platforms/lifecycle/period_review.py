"""A period's review of all platforms: the lifecycle event of each, and its steps."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import sqlalchemy as sa

from merkatd import ledger
from merkatd.cluster import Step
from merkatd.cluster.orders import LimitOrder
from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.fleets import fleet_store, platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS, PlatformMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.scheduler import bid_store, limit_order_store, period_store, price_store
from merkatd.database.scheduler.limit_order_vm_store import saved_vms
from merkatd.fleets.fleet import read_fleet_view
from merkatd.platforms.lifecycle.failed_vms import (
    failing_now,
    failures_of,
    record_replacements,
    without_refused,
)
from merkatd.platforms.lifecycle.fleet_plan import (
    PlatformFleetView,
    counts,
    ending,
    fleet_change,
    lost_members,
)
from merkatd.platforms.lifecycle.funds import may_resume, most_per_vm, platform_funds, terms_of
from merkatd.platforms.lifecycle.new_vms import (
    OFF_THEIR_HOSTS,
    WINDOW_S,
    bids_by_cluster,
    create_step,
    failing,
    member_factory,
)
from merkatd.platforms.lifecycle.platform_orders import (
    capacities,
    keep_order,
    keep_running_vms,
    order_input,
    reserve_of,
)
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.lifecycle.transitions import record_transition
from merkatd.platforms.rules.lifecycle_events import (
    ENDS,
    UP_OR_COMING,
    Event,
    LifecycleEvent,
    PlatformInput,
    PlatformState,
    next_event,
)
from merkatd.platforms.rules.start_conditions import MarketOffer, Terms
from merkatd.policies.deadline import Funds
from merkatd.protocol.platform_messages import Amounts
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.terms.creation_turns import CreationRoom

_HISTORY_INTERVALS = 10


@dataclass(frozen=True, slots=True, eq=False)
class ReviewInput:
    """The data shared by the reviews of all platforms in a period."""

    at_s: float
    """The wall clock's time, which records carry."""
    now_s: float
    """The believed time, against which deadlines are compared."""
    interval_s: float
    replenishment_s: float
    markets: Sequence[MarketRules]
    entropy: bytes
    """Random bytes of this period, from which VMs' creation keys are derived."""
    handed: Callable[[str], Mapping[str, str]]
    """A function from a creation key to the SSH attributes of a VM with a monitor."""
    advance_periods: float
    """The number of periods that an account must be able to pay in advance."""
    new_vms: int
    """The most VMs of each owner that may be created in the period."""


@dataclass(frozen=True, slots=True, eq=False)
class _ReviewState:
    """The data read for the review."""

    sight: PlatformFleetView
    prices: Mapping[str, Amounts] | None
    capacities: Mapping[str, Amounts]
    """The total capacity of each market's hosts."""
    resources: Sequence[str]
    past: Mapping[str, Mapping[str, list[float]]]
    members: Mapping[int, list[PlatformMember]]
    numbers: Mapping[int, int]
    failures: Mapping[tuple[int, str], Sequence[float]]
    """The times of recent VM failures, by platform and cluster."""
    orders: Mapping[int, LimitOrder]
    """The limit orders by platform."""
    room: CreationRoom
    """The number of VMs that each owner may still create in this period."""


@dataclass(frozen=True, slots=True)
class PlatformReview:
    """The result of a review of all platforms."""

    steps: Sequence[Step] = ()
    failed: Mapping[int, Exception] = field(default_factory=dict)
    """The exception of each platform whose review failed."""


def review_platforms(
    connection: sa.Connection, observed: Observed, now: ReviewInput
) -> PlatformReview:
    """Record the lifecycle event of each platform, and return the steps that its VMs need.

    The whole review is one transaction before any step is recorded. So after a crash the next
    period finds the same creation keys, and creates no VM twice. A platform whose review fails
    stays unchanged, and the others go on.
    """
    # Lock the platforms before reading anything else: otherwise the review would overwrite an order
    # that is stored meanwhile, such as the end of a platform and of its account.
    living = {platform.id: platform for platform in platform_store.living(connection, lock=True)}
    present = PLATFORM_VMS.living(connection)
    late = {member.platform for member in present} - living.keys()
    if late:
        living |= {platform.id: platform for platform in platform_store.of_ids(connection, late)}
    if not living:
        return PlatformReview()
    scene = _scene(connection, observed, present, [*living.values()], now)
    apart = SeparateWork(connection)
    # The controller may have bid for them since the observation; afterwards it can't.
    bid_store.forget_controllers_bids(connection, scene.sight.given_away)
    steps: list[Step] = []
    for platform, asking in _asking(apart, connection, living.values(), scene, now):
        work = partial(_review_one, connection, platform, asking, scene, now)
        done: Sequence[Step] = apart.run(platform.id, work, ())
        scene.room.count(platform.owner, done)
        steps += done
    return PlatformReview(steps, apart.failed)


@dataclass(frozen=True, slots=True, eq=False)
class _StartRequest:
    """A platform's terms for starting now, and the market's offer."""

    purse: Funds
    terms: Terms
    offer: MarketOffer


def _asking(
    apart: SeparateWork,
    connection: sa.Connection,
    living: Iterable[PlatformRow],
    scene: _ReviewState,
    now: ReviewInput,
) -> list[tuple[PlatformRow, _StartRequest | None]]:
    """Return the platforms and their start requests; None for those that end in any case."""
    asking: list[tuple[PlatformRow, _StartRequest | None]] = []
    for platform in living:
        if PlatformState(platform.state) in {PlatformState.STOPPING, *ENDS}:
            asking.append((platform, None))
            continue
        request = apart.look(
            platform.id, partial(_start_request, connection, platform, scene, now), None
        )
        if request is not None:
            asking.append((platform, request))
    return sorted(asking, key=lambda pair: pair[0].id)


def _start_request(
    connection: sa.Connection, platform: PlatformRow, scene: _ReviewState, now: ReviewInput
) -> _StartRequest:
    template = parsed(platform.template)
    budget = None if platform.account is None else ledger.budget_of(connection, platform.account)
    purse = platform_funds(budget, now.replenishment_s)
    market = market_of(template, now.markets)
    offer = MarketOffer(
        now_s=now.now_s,
        interval_s=now.interval_s,
        prices=None if scene.prices is None else scene.prices.get(market.name),
        capacity=scene.capacities.get(market.name),
        reserve=reserve_of(market, scene.resources),
        advance_periods=now.advance_periods,
        free=market.is_free,
    )
    return _StartRequest(purse, terms_of(platform, template, purse), offer)


def _scene(
    connection: sa.Connection,
    observed: Observed,
    present: Sequence[PlatformMember],
    living: Sequence[PlatformRow],
    now: ReviewInput,
) -> _ReviewState:
    owners = {platform.id: platform.owner for platform in living}
    view = read_fleet_view(
        connection, observed, present, lambda member: owners[member.platform], now.interval_s
    )
    words = list(zip(view.states.items(), observed.observation.vm_words, strict=True))
    members: dict[int, list[PlatformMember]] = {platform.id: [] for platform in living}
    for member in present:
        members.get(member.platform, []).append(member)
    newest = period_store.newest_decided(connection)
    sight = PlatformFleetView(
        period=view.period,
        at_s=view.at_s,
        interval_s=view.interval_s,
        states=view.states,
        ailing=view.ailing,
        creating=view.creating,
        refused=view.refused,
        deaf=view.deaf,
        given_away=view.given_away,
        failed={vm: word for (vm, state), word in words if failing(state, word)},
        stopped=frozenset(vm for (vm, _), word in words if word in OFF_THEIR_HOSTS),
        saved=saved_vms(connection),
    )
    return _ReviewState(
        sight=sight,
        prices=None if newest is None else price_store.load_prices(connection, newest),
        capacities=capacities(observed.snapshot, now.markets),
        resources=observed.snapshot.resources,
        past=_past(connection, now),
        members=members,
        numbers=PLATFORM_VMS.highest_numbers(connection),
        failures=fleet_store.failures(connection, now.at_s - WINDOW_S),
        orders=limit_order_store.of_platforms(connection),
        room=CreationRoom(now.new_vms),
    )


def _past(connection: sa.Connection, now: ReviewInput) -> Mapping[str, Mapping[str, list[float]]]:
    """Return the prices of the last intervals, by market and resource."""
    since_s = now.at_s - _HISTORY_INTERVALS * now.interval_s
    prices: dict[str, dict[str, list[float]]] = {}
    for market in now.markets:
        by_resource = prices.setdefault(market.name, {})
        points = price_store.history(connection, market.name, since_s)
        for point in price_store.spaced(points, now.interval_s):
            by_resource.setdefault(point.resource, []).append(point.price)
    return prices


def _review_one(
    connection: sa.Connection,
    platform: PlatformRow,
    asking: _StartRequest | None,
    scene: _ReviewState,
    now: ReviewInput,
) -> Sequence[Step]:
    known = scene.members[platform.id]
    gone = set(lost_members(known, scene.sight))
    PLATFORM_VMS.mark_gone(connection, gone, now.at_s)
    members = [member for member in known if member.key not in gone]
    if asking is None:
        return _end_one(connection, platform, members, scene, now)
    if any(member.vm is not None for member in known if member.key in gone):
        # A VM has gone and left room: retry refused creations at once.
        scene = replace(scene, sight=replace(scene.sight, refused={}))
    return _go_on(connection, platform, asking, members, scene, now)


def _end_one(
    connection: sa.Connection,
    platform: PlatformRow,
    members: Sequence[PlatformMember],
    scene: _ReviewState,
    now: ReviewInput,
) -> Sequence[Step]:
    """Return the steps that end a platform's VMs; its terms don't matter any more."""
    if not members:
        gone = LifecycleEvent(event=Event.GONE, why="")
        platform = record_transition(connection, platform, gone, now.at_s)
    state, order = PlatformState(platform.state), scene.orders.get(platform.id)
    keep_running_vms(connection, state, order, members, scene.sight)
    result = ending(state, members, scene.sight)
    PLATFORM_VMS.mark_leaving(connection, result.leave)
    return result.steps


def _go_on(
    connection: sa.Connection,
    platform: PlatformRow,
    asking: _StartRequest,
    members: Sequence[PlatformMember],
    scene: _ReviewState,
    now: ReviewInput,
) -> Sequence[Step]:
    sight, template = scene.sight, parsed(platform.template)
    purse, terms, offer = asking.purse, asking.terms, asking.offer
    market = market_of(template, now.markets)
    counted, failures = counts(members, sight), failures_of(platform, scene.failures)
    order = scene.orders.get(platform.id)
    standing = PlatformInput(
        state=PlatformState(platform.state),
        held=platform.held,
        terms=terms,
        least={cluster.name: cluster.least for cluster in template.clusters},
        over_budget=template.over_budget,
        counts=counted,
        failing=failing_now(members, sight, failures, now.at_s),
        has_run=platform.report is not None,
        order=order_input(order, platform.sizes, members, terms) if terms.patient else None,
    )
    platform = record_transition(connection, platform, next_event(standing, offer), now.at_s)
    platform, members = without_refused(
        connection, platform, template, members, counted, sight, now.at_s
    )
    if terms.patient:
        keep_order(connection, platform, order, members, sight, terms, offer, now.at_s)
    bids: Mapping[str, Mapping[str, float]] = {}
    if PlatformState(platform.state) in UP_OR_COMING:
        bids = bids_by_cluster(
            platform,
            template,
            offer.prices,
            scene.past.get(market.name, {}),
            market.default_bid,
            0.0 if terms.patient else most_per_vm(platform, purse, now.now_s, now.interval_s),
        )
    result = fleet_change(
        PlatformState(platform.state),
        platform.sizes,
        members,
        sight,
        new=member_factory(platform.id, scene.numbers.get(platform.id, 0), now.entropy),
        make=lambda member: create_step(
            platform, template, member, sight.period, bids[member.cluster], now.handed
        ),
        may_resume=may_resume(market, platform, purse),
        room=scene.room.of(platform.owner),
        replaced=record_replacements(
            connection, platform, members, sight, failures, now.at_s, now.interval_s
        ),
        ordered=terms.patient,
    )
    PLATFORM_VMS.add(connection, result.add)
    PLATFORM_VMS.mark_leaving(connection, result.leave)
    return result.steps
