"""Plans that need an approval, as interfaces show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from merkatd.database.scheduler.plan_store import StoredPlan
from merkatd.scheduler.execution.plan_reversal import LeftOutStep
from merkatd.scheduler.phases.announce import Announcement


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingStep:
    """A step of a plan that needs an approval."""

    number: int
    kind: str
    vm: int
    name: str | None
    source: str | int | None
    """The name of the host that the VM would leave, or its id if its name is not known."""
    host: str | int | None
    """The host to which the VM would go."""
    gain: float | None
    """The gain of a migration, in the objective of its strategy."""
    cost: float | None
    """The cost of a VM that starts, in credits a period."""
    reason: str
    skipped: bool
    """Whether the approval left the step out."""
    became: str | None
    """The outcome of the step, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketShortfall:
    """The sum of bid x shortfall of all VMs of a market, before and after a plan."""

    market: str
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPlan:
    """A plan that needs an approval, in any state."""

    plan: int
    period: int
    at_s: float
    state: str
    who: str | None
    """The user that approved or rejected it."""
    reverses: int | None
    """The plan that it undoes."""
    steps: Sequence[StandingStep]
    shortfalls: Sequence[MarketShortfall]
    """The shortfall of each market, when the plan was made."""
    left_out: Sequence[LeftOutStep] = ()
    """For a new reversal: the steps of the executed plan that it does not undo."""


def standing_plan_of(
    plan: StoredPlan, latest: Announcement | None, left_out: Sequence[LeftOutStep] = ()
) -> StandingPlan:
    """Return a plan, with the names of the hosts and VMs that the latest period saw."""
    hosts, vms = _names(latest)
    return StandingPlan(
        plan=plan.id,
        period=plan.period,
        at_s=plan.made_s,
        state=str(plan.state),
        who=plan.who,
        reverses=plan.reverses,
        shortfalls=[
            MarketShortfall(market=market, before=before, after=after)
            for market, (before, after) in plan.shortfalls.items()
        ],
        left_out=left_out,
        steps=[
            StandingStep(
                number=number,
                kind=step.kind,
                vm=step.vm,
                name=vms.get(step.vm),
                source=hosts.get(step.source, step.source),
                host=hosts.get(step.host, step.host),
                gain=step.gain,
                cost=step.cost,
                reason=step.reason,
                skipped=step.skipped,
                became=step.became,
            )
            for number, step in enumerate(plan.steps, start=1)
        ],
    )


def _names(
    latest: Announcement | None,
) -> tuple[Mapping[int | None, str], Mapping[int, str]]:
    if latest is None:
        return {}, {}
    seen = latest.seen.observation
    return (
        dict(zip(seen.host_id.tolist(), seen.host_name, strict=True)),
        dict(zip(seen.vm_id.tolist(), seen.vm_name, strict=True)),
    )
