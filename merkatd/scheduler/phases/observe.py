"""Observing: reading the cloud and its hosts, judging earlier steps, numbering the period."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.cluster import ACTIVE, Migrate, Step, Stop, Suspend, VmState
from merkatd.cluster.applications import NO_APPLICATIONS, ApplicationTables
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.orders import NO_ORDERS, StatedOrders
from merkatd.database import use_sample_store, vm_history_store
from merkatd.database.fleets import fleet_store, group_vm_store
from merkatd.database.fleets.first_orders import fill_new_orders
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.database.fleets.order_reading import read_orders
from merkatd.database.scheduler import (
    bid_store,
    journal,
    limit_order_store,
    limit_order_vm_store,
    migration_history,
    period_store,
)
from merkatd.database.scheduler.bid_store import Bid, BidSource
from merkatd.database.scheduler.migration_history import RecentMigrations
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.database.vm_history_store import VmHistories
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.bidders import TemplateBids, template_bids, text_hash
from merkatd.scheduler.observation.failed_boots import waiting_for_administrator
from merkatd.scheduler.observation.observed import CloudReading, Observed
from merkatd.scheduler.observation.snapshot_builder import StoredInputs, in_force_of, snapshot_of
from merkatd.scheduler.observation.step_outcomes import Verdicts, judge_steps
from merkatd.scheduler.terms.failed_migrations import resting, with_unwoken_hosts
from merkatd.scheduler.terms.ordered_vms import SAVED, with_stated_orders
from merkatd.scheduler.traits.resumable_vms import with_resumable_vms

_log = Logger()
_NO_HISTORIES = VmHistories()


async def read_cloud(context: PeriodContext) -> CloudReading:
    """Read all pools, and the hosts of all running VMs. Raise CloudUnreachableError."""
    started_s = context.now()
    observation = await context.cloud.observe()
    observation = replace(observation, failure_rates=context.failures.rates())
    context.hypervisors.meet(observation)
    running = is_one_of(observation.vm_state, ACTIVE)
    on_host = running & (observation.vm_host >= 0)
    vms, hosts = observation.vm_id[on_host], observation.vm_host[on_host]
    places = await context.executor.run(
        lambda: dict(zip(vms.tolist(), hosts.tolist(), strict=True)),
    )
    use = await context.hypervisors.read(places)
    wishes = await context.executor.run(partial(_said, observation, context.goods.resources))
    return CloudReading(started_s, observation, use, wishes)


async def look_only(context: PeriodContext, why: str) -> None:
    """Check whether a standby daemon could take over; the observation is neither stored nor used.

    Raise CloudUnreachableError.
    """
    looked = await read_cloud(context)
    _log.info(
        "Standing by; observed {vms} VMs on {hosts} hosts: {why}",
        vms=len(looked.observation.vm_id),
        hosts=len(looked.observation.host_id),
        why=why,
    )


def observed_from(
    context: PeriodContext,
    period: int,
    looked: CloudReading,
    verdicts: Verdicts,
    amounts: Mapping[int, Mapping[str, float]],
    applications: Mapping[int, int],
    rates: Mapping[int, Rate],
    known_moves: RecentMigrations,
    lost: AbstractSet[int] = frozenset(),
    stated: StatedOrders = NO_ORDERS,
    declared: ApplicationTables = NO_APPLICATIONS,
    histories: VmHistories = _NO_HISTORIES,
) -> Observed:
    """Return the input of a period with this number.

    By VM id, `amounts` are the bids in force, `applications` the VMs' applications, and `rates` the
    spending rates of VMs in groups, which replace their bids. `known_moves` are the results of
    recent migrations, `lost` the failed VMs that wait for an administrator, and `declared` what
    platforms declare of their applications, `histories` the stored past of VMs.
    """
    interval_s = context.rhythm.interval_s
    unstopped = resting(known_moves.failing_stops, looked.observation.at_s, interval_s)
    known = StoredInputs(
        bids={**amounts, **{vm: {"cpu": rate.bid} for vm, rate in rates.items()}},
        wishes=looked.bids,
        waiting=verdicts.waiting,
        applications=applications,
        declared=declared,
        moved_at_s=histories.moved_at_s,
        resting=resting(known_moves.failing, looked.observation.at_s, interval_s),
        lost=lost,
        handing=context.handing,
    )
    seen, use = with_unwoken_hosts(looked.observation, known_moves.switches), looked.use
    snapshot = snapshot_of(
        period,
        seen,
        use,
        known,
        context.markets,
        context.goods,
        context.recent.history(seen, context.goods.resources),
    )
    snapshot = with_resumable_vms(snapshot, context.markets, histories)
    return Observed(
        period=period,
        started_s=looked.started_s,
        observation=seen,
        snapshot=with_stated_orders(
            snapshot, seen.vm_words, stated, context.markets, rates, unstopped
        ),
        in_force=in_force_of(seen, use),
        verdicts=verdicts,
        wishes=looked.bids,
        use=use,
        rates=rates,
        moves=known_moves,
    )


async def observe(context: PeriodContext) -> Observed:
    """Read everything and store the observation, which gives the period its number."""
    # Read first: bids that arrive during the observation are newer than those of templates.
    began = await context.database.read(bid_store.newest)
    # A request that ends while the cloud is read may have an effect that the reading missed.
    in_flight = frozenset(context.in_flight)
    looked = await read_cloud(context)
    each_s = context.rhythm.interval_s
    if context.recent.is_empty:
        earlier = await context.database.read(use_sample_store.stored_samples)
        context.recent.restore(earlier, looked.observation.at_s, each_s)
    await context.executor.run(partial(context.recent.met, looked.observation, looked.use, each_s))
    stored = await context.database.run(
        lambda connection: _store(connection, context, looked, began, in_flight)
    )
    _report(looked.observation, stored.verdicts)
    declared = await context.applications(context.database)
    seen = await context.executor.run(
        lambda: observed_from(
            context,
            stored.period,
            looked,
            stored.verdicts,
            stored.bids,
            stored.applications,
            stored.rates,
            stored.moves,
            stored.lost,
            stored.orders,
            declared,
            stored.histories,
        )
    )
    return replace(seen, under_way=stored.under_way)


def _said(observation: Observation, resources: tuple[str, ...]) -> Mapping[int, TemplateBids]:
    return {vm: template_bids(text, resources) for vm, text in observation.attributes.items()}


@dataclass(frozen=True, slots=True)
class _Stored:
    period: int
    verdicts: Verdicts
    bids: Mapping[int, Mapping[str, float]]
    applications: Mapping[int, int]
    rates: Mapping[int, Rate]
    under_way: tuple[Step, ...]
    moves: RecentMigrations
    lost: frozenset[int]
    orders: StatedOrders
    histories: VmHistories


def _store(
    connection: sa.Connection,
    context: PeriodContext,
    looked: CloudReading,
    began: int,
    in_flight: AbstractSet[str],
) -> _Stored:
    """Store step outcomes, new bids of templates, and the period's number, in one transaction.

    A retry has the same result: steps that an earlier run ended still count as outstanding.
    """
    observation = looked.observation
    number = period_store.begun_by(connection, looked.started_s, observation.at_s)
    outstanding = journal.outstanding(connection, None if number is None else observation.at_s)
    verdicts = judge_steps(
        outstanding, observation, context.rhythm, handing=context.handing, in_flight=in_flight
    )
    at_s = observation.at_s
    journal.confirm(connection, verdicts.confirmed, at_s, verdicts.created)
    journal.expire(connection, verdicts.expired, at_s)
    use_sample_store.keep_samples(connection, context.recent.to_store())
    owners = dict(zip(observation.vm_id.tolist(), observation.vm_owner.tolist(), strict=True))
    # Their new owners pay from now on: the bids of their templates apply again.
    bid_store.forget_controllers_bids(connection, fleet_store.given_away(connection, owners))
    bid_store.record_bids(connection, changed_templates(connection, looked), began)
    unattended = fleet_store.bind_vms(connection, observation.keys, owners)
    bid_store.record_bids(connection, _silence(unattended, context.goods.resources, at_s))
    group_vm_store.bind_group_vms(connection, observation.keys, owners)
    present = bid_store.amounts(connection)
    gone = present.keys() - set(observation.vm_id.tolist()) - observation.ailing.keys()
    bid_store.forget(connection, gone)
    fill_new_orders(connection)
    left = limit_order_store.lost_vms(connection, owners, observation.ailing.keys())
    limit_order_store.remove_vms(connection, left)
    _update_saved(connection, observation, outstanding)
    histories = _updated_histories(connection, observation, outstanding, verdicts)
    if number is None:
        number = period_store.begin(
            connection, looked.started_s, at_s, len(observation.host_id), len(observation.vm_id)
        )
    applications = fleet_store.applications(connection)
    rates = group_vm_store.rates(connection, owners)
    under_way = tuple(stored.step for stored in outstanding)
    known_moves = migration_history.recent(connection, at_s)
    lost = waiting_for_administrator(connection, observation, context.rhythm.boot_retries)
    orders = read_orders(connection)
    return _Stored(
        number,
        verdicts,
        present,
        applications,
        rates,
        under_way,
        known_moves,
        lost,
        orders,
        histories,
    )


def _update_saved(
    connection: sa.Connection, seen: Observation, outstanding: Sequence[StoredStep]
) -> None:
    """Store which VMs of limit orders the scheduler has saved, and forget resumed ones.

    `outstanding` are the steps that had no outcome before this observation. Those that were refused
    are not among them, and the request of a planned one was never sent.
    """
    stopped = {
        stored.step.vm
        for stored in outstanding
        if isinstance(stored.step, Stop) and stored.sent_s is not None
    }
    rows = zip(seen.vm_id.tolist(), seen.vm_state.tolist(), seen.vm_words, strict=True)
    kept = {vm for vm, state, word in rows if word == SAVED or state == VmState.BUSY}
    limit_order_vm_store.update_saved(connection, stopped, kept | seen.ailing.keys())


def _updated_histories(
    connection: sa.Connection,
    seen: Observation,
    outstanding: Sequence[StoredStep],
    verdicts: Verdicts,
) -> VmHistories:
    """Store the migrations that this observation confirms, and which VMs steps have saved."""
    confirmed = frozenset(verdicts.confirmed)
    moves = [stored.step for stored in outstanding if isinstance(stored.step, Migrate)]
    steps = [stored.step for stored in outstanding if stored.sent_s is not None]
    goes_on = is_one_of(seen.vm_state, (VmState.RUNNING, VmState.PENDING))
    known = set(seen.vm_id.tolist()) | seen.ailing.keys()
    return vm_history_store.update_histories(
        connection,
        moved={step.vm for step in moves if step.id in confirmed},
        at_s=seen.at_s,
        saving={step.vm for step in steps if isinstance(step, Suspend | Stop)},
        goes_on=frozenset(seen.vm_id[goes_on].tolist()),
        exists=known,
    )


def _silence(vms: Iterable[int], goods: Sequence[str], at_s: float) -> list[Bid]:
    """Return zero bids for VMs that were created while their controller had failed."""
    nothing = dict.fromkeys(goods, 0.0)
    return [Bid(vm=vm, bid=nothing, source=BidSource.CONTROLLER, at_s=at_s) for vm in vms]


def changed_templates(connection: sa.Connection, looked: CloudReading) -> list[Bid]:
    """Return the bids of templates that are new, or whose text has changed."""
    attributes = looked.observation.attributes
    hashes = {vm: text_hash(attributes[vm]) for vm, bids in looked.bids.items() if bids.bid}
    return [
        Bid(
            vm=vm,
            bid=looked.bids[vm].bid,
            source=BidSource.TEMPLATE,
            at_s=looked.observation.at_s,
            template_hash=hashes[vm],
        )
        for vm in sorted(bid_store.changed_templates(connection, hashes))
    ]


def _report(observation: Observation, verdicts: Verdicts) -> None:
    for step_id, why in verdicts.expired.items():
        _log.warn("Step {step} was given up: {why}", step=step_id, why=why)
    for vm, why in observation.ailing.items():
        _log.warn("VM {vm} can't be read and is left alone: {why}", vm=vm, why=why)
    for vm, why in observation.by_record.items():
        _log.info("VM {vm} is charged and limited by OpenNebula's record: {why}", vm=vm, why=why)
