"""The effects of a proposed plan: gains and costs of its steps, and shortfalls of markets."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from merkatd.base.quantities import finite
from merkatd.cluster import Deploy, Migrate, OnHost, Plan, Step
from merkatd.cluster.plan import Create, Terminate
from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.plan_store import Key, ProposedStep, Thing
from merkatd.market.error import assess_placement
from merkatd.market.explanation import hosts_after
from merkatd.scheduler.charging.used_cpu import charged_rates
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.decide import FreeDecision
from merkatd.scheduler.phases.period_costs import costs_of_period


@dataclass(frozen=True, slots=True)
class Proposal:
    """The steps of a decision that need an approval, with their effects."""

    steps: Sequence[ProposedStep]
    shortfalls: Mapping[str, Sequence[float]]
    """By market: the shortfall before and after the steps."""

    @property
    def keys(self) -> AbstractSet[Key]:
        """Return the keys of the steps."""
        return {step.key for step in self.steps}


def asked_steps(free: FreeDecision, under_way: AbstractSet[Thing]) -> list[Step]:
    """Return the steps of a decision that need an approval, without those of busy VMs and hosts."""
    return [
        step
        for step in free.decision.plan
        if not isinstance(step, OnHost | Create | Terminate)
        and plan_store.thing_of(step) not in under_way
    ]


def bare(steps: Sequence[Step]) -> Proposal:
    """Return the steps without their effects."""
    return Proposal([plan_store.proposed(step) for step in steps], {})


def with_effects(
    context: PeriodContext, observed: Observed, free: FreeDecision, steps: Sequence[Step]
) -> Proposal:
    """Return the steps with their effects; a pass over all VMs, for a thread."""
    snapshot = observed.snapshot
    host = hosts_after(snapshot, free.decision.plan)
    rate = charged_rates(observed, context.markets)
    cost = costs_of_period(snapshot, free.decision, free.limits, host, context.markets, rate).sum(
        axis=1
    )
    proposed = []
    for step in steps:
        shown = plan_store.proposed(step)
        if isinstance(step, Migrate):
            shown = replace(shown, gain=finite(step.gain))
        elif isinstance(step, Deploy):
            shown = replace(shown, cost=finite(cost[snapshot.vm_row(step.vm)]))
        proposed.append(shown)
    before = assess_placement(snapshot, snapshot.vms.host).shortfall
    after = assess_placement(snapshot, hosts_after(snapshot, Plan(tuple(steps)))).shortfall
    return Proposal(
        proposed,
        {
            name: (float(before[market]), float(after[market]))
            for market, name in enumerate(snapshot.markets.name)
        },
    )
