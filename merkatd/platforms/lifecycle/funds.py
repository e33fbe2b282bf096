"""A platform's funds, its start terms, and the full size of its VMs."""

from functools import partial
from math import inf

import sqlalchemy as sa

from merkatd.base.quantities import LATEST_S
from merkatd.currency import MICRO
from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.ledger.budget_store import BudgetRow
from merkatd.fleets.vm_template_text import size
from merkatd.platforms.lifecycle.controller_failures import trouble_of
from merkatd.platforms.lifecycle.platform_template import PATIENT, PlatformTemplate, VirtualCluster
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.rules.lifecycle_events import WAITING, PlatformState
from merkatd.platforms.rules.start_conditions import Terms
from merkatd.policies.deadline import Funds, bid_max, least_part
from merkatd.protocol.platform_messages import Amounts
from merkatd.scheduler.base.settings import MarketRules

_HORIZON_S = 86_400.0
"""The time for which the budget must pay a first bid of a platform without a deadline: a day."""


def read_all(connection: sa.Connection) -> None:
    """Parse the templates of all living platforms, to fill the caches."""
    apart = SeparateWork(connection)
    for platform in platform_store.living(connection):
        apart.look(platform.id, partial(_read, platform), None)


def _read(platform: PlatformRow) -> None:
    usable_by_all(platform, parsed(platform.template))


def platform_funds(budget: BudgetRow | None, replenishment_s: float) -> Funds:
    """Return a platform's credits and its replenishment."""
    if budget is None:
        return Funds(credits=0.0)
    return Funds(
        credits=budget.balance / MICRO,
        renewal=budget.replenishment / MICRO,
        renewal_s=replenishment_s,
    )


def earliest_start_s(platform: PlatformRow, template: PlatformTemplate) -> float | None:
    """Return the time before which a waiting platform must not start; None without such a time."""
    not_before = template.start.not_before if platform.state in WAITING else None
    return None if not_before is None else not_before.seconds(platform.submitted_s)


def terms_of(platform: PlatformRow, template: PlatformTemplate, purse: Funds) -> Terms:
    """Return the start terms for the rest of its work; start times count before the start only."""
    goal, start = template.goal, template.start
    latest = start.latest if platform.state in WAITING else None
    return Terms(
        deadline_s=platform.deadline_s,
        ideal_s=_work_left_s(platform, goal.ideal_s),
        give_up=goal.give_up,
        not_before_s=earliest_start_s(platform, template),
        latest_s=None if latest is None else latest.seconds(platform.submitted_s),
        price_ceiling=start.price_ceiling,
        full=usable_by_all(platform, template),
        purse=purse,
        patient=template.controller == PATIENT,
        least_part=least_part(template.controller, template.parameters),
        suspended_s=platform.since_s if platform.state == PlatformState.SUSPENDED else None,
    )


def _work_left_s(platform: PlatformRow, ideal_s: float | None) -> float | None:
    """Return the ideal time for the rest of the work; without `ideal_run`, as reported.

    A controller may report any number. Near the largest one, the search for the least deadline
    would never end, and with it no period.
    """
    report = platform.report or {}
    if ideal_s is None:
        learned: float | None = report.get("work_left_s")
        return None if learned is None else min(max(learned, 0.0), LATEST_S)
    return ideal_s * (1.0 - min(max(float(report.get("done") or 0.0), 0.0), 1.0))


def wanted_amounts(cluster: VirtualCluster, vm_template: str) -> dict[str, float]:
    """Return the full size of one VM of a cluster."""
    full_size = size(vm_template)
    return {
        name: min(full_size.get(name, inf), cluster.ceiling.get(name, inf))
        for name in {**full_size, **cluster.ceiling}
    }


def most_per_vm(platform: PlatformRow, purse: Funds, now_s: float, interval_s: float) -> float:
    """Return the highest bid for a VM and period with which the budget lasts (section 3.1.1).

    It is 0 while the platform's controller fails.
    """
    if trouble_of(platform):
        return 0.0
    deadline_s = platform.deadline_s
    left_s = _HORIZON_S if deadline_s is None else deadline_s - now_s
    return bid_max(purse, max(left_s, interval_s), interval_s, sum(platform.sizes.values()))


def may_resume(market: MarketRules, platform: PlatformRow, purse: Funds) -> bool:
    """Return whether the platform itself resumes its saved VMs.

    A strategy that states what each VM gets also saves VMs, and resumes those of a running
    platform. See Note [Who resumes a VM] in `merkatd/placement/changes/saved_vms.py`.
    """
    if market.states_amounts and platform.state != PlatformState.RESUMING:
        return False
    return purse.credits > 0 or market.is_free


def usable_by_all(platform: PlatformRow, template: PlatformTemplate) -> Amounts:
    """Return the full size of all its VMs together."""
    amounts: dict[str, float] = {}
    for cluster in template.clusters:
        number = platform.sizes.get(cluster.name, 0)
        for name, amount in wanted_amounts(cluster, platform.vm_templates[cluster.name]).items():
            amounts[name] = amounts.get(name, 0.0) + amount * number
    return amounts
