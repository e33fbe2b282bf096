"""What if: the plan and the prices of a cloud with other hosts or budgets.

The daemon's own strategies decide on the changed cloud, as in a dry run. Nothing is stored or sent.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from merkatd.base.quantities import quoted_value
from merkatd.cluster import HostState
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.orders import LEAST_LIMIT
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.traits import HostTraits
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodViews, host_row_named
from merkatd.service.market.plans import PlanPreview
from merkatd.service.reports.dry_runs import DryRunInputs, dry_run

MOST_HOSTS = 100
"""The most hosts that a question may take away or add."""
MOST_FACTOR = 1e6


@dataclass(frozen=True, slots=True)
class ComparedPlans:
    """The plan of a period that starts now, and the same in the changed cloud."""

    without: Sequence[str]
    """The names of the hosts that are missing."""
    more: Sequence[str]
    """The names of the added hosts."""
    budgets: Mapping[str, float]
    """The factors by the tenants' names."""
    now: PlanPreview
    then: PlanPreview


class WhatIfService:
    """The plans of changed clouds."""

    def __init__(self, scheduler: Scheduler, views: PeriodViews) -> None:
        self._scheduler = scheduler
        self._views = views

    async def compare(
        self,
        caller: Caller,
        without: Sequence[str],
        more: Sequence[str],
        budgets: Mapping[int, float],
    ) -> ComparedPlans:
        """Return the plans of the cloud now, and of the changed cloud. Raise RequestError.

        `without` are hosts that are missing, by id or name. For each of `more` there is another
        host like it. `budgets` has the factors of tenants' credits, bids, limits and rates.
        """
        require_admin(caller, "ADMIN PLAN")
        seen = self._views.latest.seen.observation
        gone = [host_row_named(seen.host_id, seen.host_name, host) for host in without]
        like = [host_row_named(seen.host_id, seen.host_name, host) for host in more]
        _check(gone, like, budgets)
        context, leave = self._scheduler.world, self._scheduler.leave
        ids = seen.host_id.tolist()

        def change(inputs: DryRunInputs) -> DryRunInputs:
            observed = without_hosts(inputs.looked.observation, {ids[row] for row in gone})
            observed = with_hosts_like(observed, [ids[row] for row in like])
            looked = replace(inputs.looked, observation=observed)
            return with_budgets(replace(inputs, looked=looked), budgets)

        return ComparedPlans(
            without=[seen.host_name[row] for row in gone],
            more=[_new_name(seen.host_name[row], at) for at, row in enumerate(like)],
            budgets={seen.owner_name.get(owner, str(owner)): by for owner, by in budgets.items()},
            now=await dry_run(context, leave),
            then=await dry_run(context, leave, change),
        )


def _check(gone: Sequence[int], like: Sequence[int], budgets: Mapping[int, float]) -> None:
    """Raise InvalidRequestError for a question about nothing, or about too much."""
    if not gone and not like and not budgets:
        raise InvalidRequestError("without, more, budgets: at least one change must be given")
    if len(gone) + len(like) > MOST_HOSTS:
        raise InvalidRequestError(f"without, more: at most {MOST_HOSTS} hosts may change")
    for factor in budgets.values():
        if isinstance(factor, bool) or not isinstance(factor, int | float):
            raise InvalidRequestError(f"budgets: must be numbers (got {quoted_value(factor)})")
        if not 0 <= factor <= MOST_FACTOR:
            raise InvalidRequestError(
                f"budgets: factors must be from 0 to {MOST_FACTOR:g} (got {quoted_value(factor)})"
            )


def without_hosts(seen: Observation, gone: AbstractSet[int]) -> Observation:
    """Return the cloud in which these hosts are to be emptied, so that they count no more."""
    leaves = is_one_of(seen.host_id, gone) & (seen.host_state != int(HostState.OFF))
    return replace(seen, host_state=np.where(leaves, int(HostState.DRAINED), seen.host_state))


def with_hosts_like(seen: Observation, like: Sequence[int]) -> Observation:
    """Return the cloud with another empty host for each of these, with the same attributes.

    A class of VMs that may be on the one may be on the other.
    """
    if not like:
        return seen
    ids = seen.host_id.tolist()
    rows = np.array([*range(len(ids)), *(ids.index(host) for host in like if host in ids)])
    old, new = len(ids), range(len(ids), len(rows))
    first = max(ids) + 1
    added = {first + at: ids[rows[row]] for at, row in enumerate(new)}
    state, used = seen.host_state[rows], seen.host_used[rows]
    state[old:] = int(HostState.ON)
    used[old:] = 0.0
    rules = seen.constraints
    return replace(
        seen,
        host_id=np.array([*ids, *added], dtype=seen.host_id.dtype),
        host_name=(
            *seen.host_name,
            *(_new_name(seen.host_name[rows[row]], at) for at, row in enumerate(new)),
        ),
        host_cluster=seen.host_cluster[rows],
        host_state=state,
        host_capacity=seen.host_capacity[rows],
        host_used=used,
        host_goods={
            **seen.host_goods,
            **{
                host: seen.host_goods[source]
                for host, source in added.items()
                if source in seen.host_goods
            },
        },
        host_traits=None if seen.host_traits is None else _traits(seen.host_traits, rows, old),
        constraints=None
        if rules is None
        else replace(rules, allowed=rules.allowed[:, rows], rank=rules.rank[:, rows]),
    )


def _new_name(like: str, number: int) -> str:
    return f"{like}-new{number + 1}"


def _traits(traits: HostTraits, rows: Any, old: int) -> HostTraits:
    """Return the traits of these rows; those from `old` on are new hosts, which don't sleep."""
    is_old = np.arange(len(rows)) < old
    return replace(
        traits,
        domains={kind: columns[rows] for kind, columns in traits.domains.items()},
        topology=traits.topology[rows],
        link_mbit_s=traits.link_mbit_s[rows],
        idle_watts=traits.idle_watts[rows],
        full_watts=traits.full_watts[rows],
        can_sleep=traits.can_sleep[rows] & is_old,
        asleep=traits.asleep[rows] & is_old,
    )


def with_budgets(inputs: DryRunInputs, budgets: Mapping[int, float]) -> DryRunInputs:
    """Return the inputs with these factors of tenants' credits, bids, limits and rates.

    A tenant with twice the credits can bid twice as much for as long, so all of these change.
    """
    if not budgets:
        return inputs
    seen, purse = inputs.looked.observation, inputs.purse
    owners = dict(zip(seen.vm_id.tolist(), seen.vm_owner.tolist(), strict=True))
    by = {vm: budgets[owner] for vm, owner in owners.items() if owner in budgets}
    accounts = {purse.payer[vm]: factor for vm, factor in by.items() if vm in purse.payer}
    return replace(
        inputs,
        bids={
            vm: {name: bid * by.get(vm, 1.0) for name, bid in bids.items()}
            for vm, bids in inputs.bids.items()
        },
        rates={
            vm: replace(rate, bid=rate.bid * by.get(vm, 1.0)) for vm, rate in inputs.rates.items()
        },
        purse=replace(
            purse,
            free={
                account: round(amount * accounts.get(account, 1.0))
                for account, amount in purse.free.items()
            },
        ),
        orders=replace(
            inputs.orders,
            orders=tuple(
                replace(order, limit=max(order.limit * budgets[order.owner], LEAST_LIMIT))
                if order.owner in budgets
                else order
                for order in inputs.orders.orders
            ),
        ),
    )
