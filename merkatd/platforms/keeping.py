"""A period's look after all platforms: what happens to each, and the steps that follow."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from controllers.policies.deadline import Purse
from controllers.policies.patience import Book
from merkatd import ledger
from merkatd.cluster import Create, Step, VmState
from merkatd.database import decisions, doings, fleets, periods, platforms, prices
from merkatd.database.doings import Doing
from merkatd.database.fleets import Member
from merkatd.database.platforms import Platform
from merkatd.platforms.claims import capacities, claimed_at_start
from merkatd.platforms.conditions import Offer, Terms, limit_of
from merkatd.platforms.fleet import MOST_REFUSALS, Counts, Sight, counts, lost, orders
from merkatd.platforms.life import ENDS, UP_OR_COMING, State
from merkatd.platforms.making import bids_by_cluster, created, numbered
from merkatd.platforms.passing import MANAGER, passed, resized
from merkatd.platforms.ports import Amounts
from merkatd.platforms.purses import most_per_vm, purse_of, terms_of
from merkatd.platforms.replacing import WINDOW_S, Failures, exhausted, failing, replaced
from merkatd.platforms.stored import market_of, parsed
from merkatd.platforms.turning import Standing, happening
from merkatd.scheduler.creations import Room
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.settings import Market

_HISTORY_PERIODS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Circumstances:
    """What is the same for all platforms in a period."""

    at_s: float
    interval_s: float
    replenishment_s: float
    markets: Sequence[Market]
    entropy: bytes
    """Of this period alone: keys are made from it."""
    handed: Callable[[str], Mapping[str, str]]
    """Attributes more for the VM that is made by a key, where a monitor is to reach it."""
    books: Mapping[str, Book]
    """By market: what was claimed when the last period ended; starts of this one come to it."""
    new_vms: int
    """At most so many VMs of each owner are made in the period."""


@dataclass(frozen=True, slots=True, eq=False)
class _Scene:
    """All that was read."""

    sight: Sight
    prices: Mapping[str, Amounts] | None
    capacities: Mapping[str, Amounts]
    """By market: all that its hosts have."""
    past: Mapping[str, Mapping[str, list[float]]]
    members: Mapping[int, list[Member]]
    numbers: Mapping[int, int]
    failures: Mapping[tuple[int, str], Sequence[float]]
    """By platform and cluster: when VMs had failed lately."""
    room: Room
    """For new VMs."""


def tend(connection: sa.Connection, seen: Seen, now: Circumstances) -> list[Step]:
    """Let happen what happens to each platform; the steps that its VMs need.

    All of it is one transaction before any step is recorded: after a crash the next period
    finds the same keys, and creates nothing twice.
    """
    present = fleets.present(connection)
    living = {one.id: one for one in platforms.living(connection)}
    late = {one.platform for one in present} - living.keys()
    if late:
        living |= {one.id: one for one in platforms.of_ids(connection, late)}
    if not living:
        return []
    scene = _scene(connection, seen, present, [*living.values()], now)
    steps: list[Step] = []
    for platform, asking in _in_turn(connection, living.values(), scene, now):
        steps += _tend_one(connection, platform, asking, scene, now)
    return steps


@dataclass(frozen=True, slots=True, eq=False)
class _Asking:
    """What a platform asks of the moment, and what it is offered."""

    purse: Purse
    terms: Terms
    offer: Offer


def _in_turn(
    connection: sa.Connection, living: Iterable[Platform], scene: _Scene, now: Circumstances
) -> list[tuple[Platform, _Asking]]:
    """Of those who wait for room in a book, who offers more is asked first."""
    asking = [(one, _asking(connection, one, scene, now)) for one in living]
    patient = {one.id: limit_of(it.terms, it.offer) for one, it in asking if it.terms.patient}
    return sorted(asking, key=lambda pair: (-patient.get(pair[0].id, 0.0), pair[0].id))


def _asking(
    connection: sa.Connection, platform: Platform, scene: _Scene, now: Circumstances
) -> _Asking:
    template = parsed(platform.template)
    budget = None if platform.account is None else ledger.budget_of(connection, platform.account)
    purse = purse_of(budget, now.replenishment_s)
    market = market_of(template, now.markets).name
    offer = Offer(
        now_s=now.at_s,
        interval_s=now.interval_s,
        prices=None if scene.prices is None else scene.prices.get(market),
        capacity=scene.capacities.get(market),
        book=now.books.get(market),
    )
    return _Asking(purse, terms_of(platform, template, purse), offer)


def _scene(
    connection: sa.Connection,
    seen: Seen,
    present: Sequence[Member],
    living: Sequence[Platform],
    now: Circumstances,
) -> _Scene:
    # Where OpenNebula deploys, VMs whose turn it is not are out of the snapshot's sight.
    busy = seen.snapshot.vms.state == int(VmState.BUSY)
    state = np.where(busy, int(VmState.BUSY), seen.observation.vm_state)
    states = {
        vm: VmState(one)
        for vm, one in zip(seen.observation.vm_id.tolist(), state.tolist(), strict=True)
    }
    words = zip(states.items(), seen.observation.vm_words, strict=True)
    unmade = [one.key for one in present if one.vm is None]
    creating = {
        stored.step.key
        for stored in decisions.outstanding(connection)
        if isinstance(stored.step, Create)
    }
    members: dict[int, list[Member]] = {one.id: [] for one in living}
    for one in present:
        members[one.platform].append(one)
    newest = periods.newest_decided(connection)
    sight = Sight(
        period=seen.period,
        states=states,
        ailing=seen.observation.ailing.keys(),
        creating=frozenset(creating),
        refused=fleets.refusals(connection, unmade),
        failed={vm: said for (vm, one), said in words if failing(one, said)},
    )
    return _Scene(
        sight=sight,
        prices=None if newest is None else prices.load(connection, newest),
        capacities=capacities(seen.snapshot, now.markets),
        past=_past(connection, now),
        members=members,
        numbers=fleets.numbers(connection),
        failures=fleets.failures(connection, now.at_s - WINDOW_S),
        room=Room(now.new_vms),
    )


def _past(connection: sa.Connection, now: Circumstances) -> Mapping[str, Mapping[str, list[float]]]:
    """By market and resource: the prices of the last periods."""
    since_s = now.at_s - _HISTORY_PERIODS * now.interval_s
    found: dict[str, dict[str, list[float]]] = {}
    for market in now.markets:
        by_resource = found.setdefault(market.name, {})
        for point in prices.history(connection, market.name, since_s):
            by_resource.setdefault(point.resource, []).append(point.price)
    return found


def _tend_one(
    connection: sa.Connection,
    platform: Platform,
    asking: _Asking,
    scene: _Scene,
    now: Circumstances,
) -> Sequence[Step]:
    sight, template = scene.sight, parsed(platform.template)
    purse, terms, offer = asking.purse, asking.terms, asking.offer
    known = scene.members[platform.id]
    gone = set(lost(known, sight))
    fleets.lose(connection, gone, now.at_s)
    members: Sequence[Member] = [one for one in known if one.key not in gone]
    market = market_of(template, now.markets)
    counted = counts(members, sight)
    if State(platform.state) not in ENDS:
        standing = Standing(
            state=State(platform.state),
            held=platform.held,
            terms=terms,
            least={one.name: one.least for one in template.clusters},
            over_budget=template.over_budget,
            counts=counted,
            failing=_failing(platform, members, scene, now),
        )
        platform = passed(connection, platform, happening(standing, offer), now.at_s)
        platform = claimed_at_start(connection, platform, standing.state, terms, offer)
        platform, members = _without_refused(
            connection, platform, members, counted, sight, now.at_s
        )
    bids: Mapping[str, Mapping[str, float]] = {}
    if State(platform.state) in UP_OR_COMING:
        bids = bids_by_cluster(
            platform,
            template,
            offer.prices,
            scene.past.get(market.name, {}),
            market.default_bid,
            most_per_vm(platform, purse, now.at_s, now.interval_s),
        )
    result = orders(
        State(platform.state),
        platform.sizes,
        members,
        sight,
        new=numbered(platform.id, scene.numbers.get(platform.id, 0), now.entropy),
        make=lambda one: created(
            platform, template, one, sight.period, bids[one.cluster], now.handed
        ),
        may_resume=purse.credits > 0,
        room=scene.room.of(platform.owner),
        replaced=_replaced(connection, platform, members, scene, now),
    )
    scene.room.count(platform.owner, result.steps)
    fleets.add(connection, result.add)
    fleets.leave(connection, result.leave)
    return result.steps


def _failed(members: Sequence[Member], sight: Sight) -> dict[str, list[tuple[str, int, str]]]:
    """By cluster, those that have failed: key, id and OpenNebula's word for it."""
    found: dict[str, list[tuple[str, int, str]]] = {}
    for one in members:
        if one.vm in sight.failed and one.vm is not None and not one.leaving:
            found.setdefault(one.cluster, []).append((one.key, one.vm, sight.failed[one.vm]))
    return found


def _failures(platform: Platform, scene: _Scene) -> dict[str, Failures]:
    return {
        cluster: Failures(tuple(at_s))
        for (owner, cluster), at_s in scene.failures.items()
        if owner == platform.id
    }


def _failing(
    platform: Platform, members: Sequence[Member], scene: _Scene, now: Circumstances
) -> str:
    """Of a cluster of which too many have failed: what is the matter with the last one."""
    failed = _failed(members, scene.sight)
    over = exhausted(_failures(platform, scene), now.at_s)
    return next(
        (f"VM {vm} is {words}" for name in over for _, vm, words in failed.get(name, [])), ""
    )


def _replaced(
    connection: sa.Connection,
    platform: Platform,
    members: Sequence[Member],
    scene: _Scene,
    now: Circumstances,
) -> frozenset[str]:
    """Keys of those that have failed and are made anew now; it is written down why."""
    if State(platform.state) not in UP_OR_COMING:
        return frozenset()
    failed = _failed(members, scene.sight)
    found = replaced(failed, _failures(platform, scene), now.at_s, now.interval_s)
    keys = frozenset(one.key for one in found)
    fleets.fail(connection, keys, now.at_s)
    for one in found:
        doing = Doing(
            platform=platform.id, at_s=now.at_s, who=MANAGER, what="replace", text=one.text
        )
        doings.add(connection, doing)
    return keys


def _without_refused(
    connection: sa.Connection,
    platform: Platform,
    members: Sequence[Member],
    counted: Counts,
    sight: Sight,
    at_s: float,
) -> tuple[Platform, Sequence[Member]]:
    """One that runs goes on without the VMs that OpenNebula refuses to make."""
    if not counted.trouble or State(platform.state) not in UP_OR_COMING:
        return platform, members
    refused = sight.refused or {}
    given_up = [
        one
        for one in members
        if one.vm is None and refused.get(one.key, (0, ""))[0] >= MOST_REFUSALS
    ]
    fleets.lose(connection, [one.key for one in given_up], at_s)
    fewer = Counter(one.cluster for one in given_up if not one.leaving)
    sizes = {name: max(size - fewer[name], 0) for name, size in platform.sizes.items()}
    doing = Doing(
        platform=platform.id,
        at_s=at_s,
        who=MANAGER,
        what="size",
        text=f"goes on without {len(given_up)} VMs: {counted.trouble}",
        refused=True,
    )
    keys = {one.key for one in given_up}
    left = [one for one in members if one.key not in keys]
    return resized(connection, platform, sizes, doing), left
