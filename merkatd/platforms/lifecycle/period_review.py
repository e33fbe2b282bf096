"""A period's look after all platforms: what happens to each, and the steps that follow."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import sqlalchemy as sa

from merkatd import ledger
from merkatd.cluster import Create, Step, VmState
from merkatd.database.base.savepoints import Apart
from merkatd.database.fleets import fleet_store, platform_store
from merkatd.database.fleets.fleet_store import PlatformMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.scheduler import journal, period_store, price_store
from merkatd.platforms.lifecycle.claims import capacities, claimed_at_start
from merkatd.platforms.lifecycle.failed_vms import (
    failing_now,
    failures_of,
    made_anew,
    without_refused,
)
from merkatd.platforms.lifecycle.fleet_plan import (
    LONGEST_REST_S,
    PlatformFleetView,
    counts,
    ending,
    fleet_change,
    lost_members,
)
from merkatd.platforms.lifecycle.funds import most_per_vm, platform_funds, terms_of
from merkatd.platforms.lifecycle.new_vms import (
    OFF_THEIR_HOSTS,
    WINDOW_S,
    bids_by_cluster,
    create_step,
    failing,
    member_factory,
)
from merkatd.platforms.lifecycle.start_conditions import MarketOffer, Terms, limit_of
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.lifecycle.transitions import (
    ENDS,
    UP_OR_COMING,
    Event,
    LifecycleEvent,
    PlatformInput,
    PlatformState,
    next_event,
    record_transition,
)
from merkatd.policies.deadline import Funds
from merkatd.policies.patience import Book
from merkatd.protocol.platform_messages import Amounts, Claim
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.terms.creation_turns import Room

_HISTORY_PERIODS = 10


@dataclass(frozen=True, slots=True, eq=False)
class ReviewInput:
    """What is the same for all platforms in a period."""

    at_s: float
    """The wall clock's time, which is written down,"""
    now_s: float
    """and the time that is believed, by which deadlines are judged."""
    interval_s: float
    replenishment_s: float
    markets: Sequence[MarketRules]
    entropy: bytes
    """Of this period alone: keys are made from it."""
    handed: Callable[[str], Mapping[str, str]]
    """Attributes more for the VM that is made by a key, where a monitor is to reach it."""
    books: Mapping[str, Book]
    """By market: what was claimed when the last period ended; starts of this one come to it."""
    new_vms: int
    """At most so many VMs of each owner are made in the period."""


@dataclass(frozen=True, slots=True, eq=False)
class _ReviewState:
    """All that was read."""

    sight: PlatformFleetView
    prices: Mapping[str, Amounts] | None
    capacities: Mapping[str, Amounts]
    """By market: all that its hosts have."""
    past: Mapping[str, Mapping[str, list[float]]]
    members: Mapping[int, list[PlatformMember]]
    numbers: Mapping[int, int]
    failures: Mapping[tuple[int, str], Sequence[float]]
    """By platform and cluster: when VMs had failed lately."""
    room: Room
    """For new VMs."""


@dataclass(frozen=True, slots=True)
class PlatformReview:
    """What came of a look after all."""

    steps: Sequence[Step] = ()
    failed: Mapping[int, Exception] = field(default_factory=dict)
    """By platform, why one could not be looked after."""


def review_platforms(connection: sa.Connection, seen: Observed, now: ReviewInput) -> PlatformReview:
    """Let happen what happens to each platform; the steps that its VMs need.

    All of it is one transaction before any step is recorded: after a crash the next period
    finds the same keys, and creates nothing twice. Where one platform fails it stays as it was,
    and the others go on.
    """
    present = fleet_store.living_members(connection)
    living = {one.id: one for one in platform_store.living(connection)}
    late = {one.platform for one in present} - living.keys()
    if late:
        living |= {one.id: one for one in platform_store.of_ids(connection, late)}
    if not living:
        return PlatformReview()
    # Starts of this round come to the books: a round that is run again begins with them as before.
    now = replace(now, books={market: book.copy() for market, book in now.books.items()})
    scene, apart = _scene(connection, seen, present, [*living.values()], now), Apart(connection)
    steps: list[Step] = []
    for platform, asking in _in_turn(apart, connection, living.values(), scene, now):
        work = partial(_tend_one, connection, platform, asking, scene, now)
        done = apart.run(platform.id, work, _NOTHING)
        scene.room.count(platform.owner, done.steps)
        steps += done.steps
        if done.claim is not None and asking is not None and asking.offer.book is not None:
            asking.offer.book.claim(done.claim.price, done.claim.units)
    return PlatformReview(steps, apart.failed)


@dataclass(frozen=True, slots=True)
class _Done:
    """What comes of a look after one platform."""

    steps: Sequence[Step] = ()
    claim: Claim | None = None
    """What it claims from now on, where it has just begun to run by the book."""


_NOTHING = _Done()


@dataclass(frozen=True, slots=True, eq=False)
class _StartRequest:
    """What a platform asks of the moment, and what it is offered."""

    purse: Funds
    terms: Terms
    offer: MarketOffer
    limit: float
    """What it offers for room in a book, where it waits for that."""


def _in_turn(
    apart: Apart,
    connection: sa.Connection,
    living: Iterable[PlatformRow],
    scene: _ReviewState,
    now: ReviewInput,
) -> list[tuple[PlatformRow, _StartRequest | None]]:
    """Of those who wait for room in a book, who offers more is asked first.

    One that ends asks for nothing: it is ended whatever may be wrong with it otherwise.
    """
    asking: list[tuple[PlatformRow, _StartRequest | None]] = []
    for one in living:
        if PlatformState(one.state) in {PlatformState.STOPPING, *ENDS}:
            asking.append((one, None))
            continue
        found = apart.look(one.id, partial(_asking, connection, one, scene, now), None)
        if found is not None:
            asking.append((one, found))
    return sorted(asking, key=lambda pair: (-(pair[1].limit if pair[1] else 0.0), pair[0].id))


def _asking(
    connection: sa.Connection, platform: PlatformRow, scene: _ReviewState, now: ReviewInput
) -> _StartRequest:
    template = parsed(platform.template)
    budget = None if platform.account is None else ledger.budget_of(connection, platform.account)
    purse = platform_funds(budget, now.replenishment_s)
    market = market_of(template, now.markets).name
    offer = MarketOffer(
        now_s=now.now_s,
        interval_s=now.interval_s,
        prices=None if scene.prices is None else scene.prices.get(market),
        capacity=scene.capacities.get(market),
        book=now.books.get(market),
    )
    terms = terms_of(platform, template, purse)
    return _StartRequest(purse, terms, offer, limit_of(terms, offer) if terms.patient else 0.0)


def _scene(
    connection: sa.Connection,
    seen: Observed,
    present: Sequence[PlatformMember],
    living: Sequence[PlatformRow],
    now: ReviewInput,
) -> _ReviewState:
    # Where OpenNebula deploys, VMs whose turn it is not are out of the snapshot's sight.
    busy = seen.snapshot.vms.state == int(VmState.BUSY)
    state = np.where(busy, int(VmState.BUSY), seen.observation.vm_state)
    states = {
        vm: VmState(one)
        for vm, one in zip(seen.observation.vm_id.tolist(), state.tolist(), strict=True)
    }
    words = list(zip(states.items(), seen.observation.vm_words, strict=True))
    unmade = [one.key for one in present if one.vm is None]
    creating = {
        stored.step.key
        for stored in journal.outstanding(connection)
        if isinstance(stored.step, Create)
    }
    members: dict[int, list[PlatformMember]] = {one.id: [] for one in living}
    for one in present:
        members.get(one.platform, []).append(one)
    newest = period_store.newest_decided(connection)
    sight = PlatformFleetView(
        period=seen.period,
        states=states,
        ailing=seen.observation.ailing.keys(),
        creating=frozenset(creating),
        refused=fleet_store.refusals(connection, unmade),
        longest_rest=max(int(LONGEST_REST_S // now.interval_s), 1),
        failed={vm: said for (vm, one), said in words if failing(one, said)},
        stopped=frozenset(vm for (vm, _), said in words if said in OFF_THEIR_HOSTS),
        deaf=journal.deaf(
            connection, [one.vm for one in present if one.leaving and one.vm is not None]
        ),
    )
    return _ReviewState(
        sight=sight,
        prices=None if newest is None else price_store.load_prices(connection, newest),
        capacities=capacities(seen.snapshot, now.markets),
        past=_past(connection, now),
        members=members,
        numbers=fleet_store.highest_numbers(connection),
        failures=fleet_store.failures(connection, now.at_s - WINDOW_S),
        room=Room(now.new_vms),
    )


def _past(connection: sa.Connection, now: ReviewInput) -> Mapping[str, Mapping[str, list[float]]]:
    """By market and resource: the prices of the last periods."""
    since_s = now.at_s - _HISTORY_PERIODS * now.interval_s
    found: dict[str, dict[str, list[float]]] = {}
    for market in now.markets:
        by_resource = found.setdefault(market.name, {})
        for point in price_store.history(connection, market.name, since_s):
            by_resource.setdefault(point.resource, []).append(point.price)
    return found


def _tend_one(
    connection: sa.Connection,
    platform: PlatformRow,
    asking: _StartRequest | None,
    scene: _ReviewState,
    now: ReviewInput,
) -> _Done:
    known = scene.members[platform.id]
    gone = set(lost_members(known, scene.sight))
    fleet_store.mark_gone(connection, gone, now.at_s)
    members = [one for one in known if one.key not in gone]
    if asking is None:
        return _Done(_end_one(connection, platform, members, scene, now))
    if any(one.vm is not None for one in known if one.key in gone):
        # It leaves room: what was refused before is asked for at once.
        scene = replace(scene, sight=replace(scene.sight, refused={}))
    return _go_on(connection, platform, asking, members, scene, now)


def _end_one(
    connection: sa.Connection,
    platform: PlatformRow,
    members: Sequence[PlatformMember],
    scene: _ReviewState,
    now: ReviewInput,
) -> Sequence[Step]:
    """One that ends makes no VM any more: nothing of what it asks for is looked at."""
    if not members:
        record_transition(connection, platform, LifecycleEvent(event=Event.GONE, why=""), now.at_s)
    result = ending(PlatformState(platform.state), members, scene.sight)
    fleet_store.mark_leaving(connection, result.leave)
    return result.steps


def _go_on(
    connection: sa.Connection,
    platform: PlatformRow,
    asking: _StartRequest,
    members: Sequence[PlatformMember],
    scene: _ReviewState,
    now: ReviewInput,
) -> _Done:
    sight, template = scene.sight, parsed(platform.template)
    purse, terms, offer = asking.purse, asking.terms, asking.offer
    market = market_of(template, now.markets)
    counted, failures = counts(members, sight), failures_of(platform, scene.failures)
    standing = PlatformInput(
        state=PlatformState(platform.state),
        held=platform.held,
        terms=terms,
        least={one.name: one.least for one in template.clusters},
        over_budget=template.over_budget,
        counts=counted,
        failing=failing_now(members, sight, failures, now.at_s),
    )
    platform = record_transition(connection, platform, next_event(standing, offer), now.at_s)
    platform, claim = claimed_at_start(connection, platform, standing.state, terms, offer)
    platform, members = without_refused(
        connection, platform, template, members, counted, sight, now.at_s
    )
    bids: Mapping[str, Mapping[str, float]] = {}
    if PlatformState(platform.state) in UP_OR_COMING:
        bids = bids_by_cluster(
            platform,
            template,
            offer.prices,
            scene.past.get(market.name, {}),
            market.default_bid,
            most_per_vm(platform, purse, now.now_s, now.interval_s),
        )
    result = fleet_change(
        PlatformState(platform.state),
        platform.sizes,
        members,
        sight,
        new=member_factory(platform.id, scene.numbers.get(platform.id, 0), now.entropy),
        make=lambda one: create_step(
            platform, template, one, sight.period, bids[one.cluster], now.handed
        ),
        may_resume=purse.credits > 0,
        room=scene.room.of(platform.owner),
        replaced=made_anew(
            connection, platform, members, sight, failures, now.at_s, now.interval_s
        ),
    )
    fleet_store.add_platform_members(connection, result.add)
    fleet_store.mark_leaving(connection, result.leave)
    return _Done(result.steps, claim)
