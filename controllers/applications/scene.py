"""All that a decision about an iterative application is made of, and how its tenant is told."""

from dataclasses import dataclass
from math import isinf
from typing import Final

from controllers.policies.deadline import Work, grace_s, least_deadline_s
from controllers.policies.suspension import Case
from merkatd.platforms.ports import News

SPARE_PERIODS: Final = 2
"""So many periods before its deadline the work is to be done,"""
SPARE_MOST: Final = 0.75
"""but for no more than this part of what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that a decision is made of."""

    work: Work
    left_s: float
    """To the deadline,"""
    usable_s: float
    """and of that to be planned with: bids count a period later, as does what is seen."""
    pace_s: float
    """How long an iteration takes now,"""
    reachable_step_s: float
    """and how long it could at what may be spent,"""
    part: float
    """which buys this part of all that the VMs can use."""
    held: float
    """The part that those have now that run,"""
    whole: bool
    """and whether all do."""
    names: tuple[str, ...]
    """Of the resources."""
    case: Case
    """What the rule of suspensions judges,"""
    spending: float
    """and what can be spent in a period on all VMs."""
    seen: bool
    """Whether it is known how much is done,"""
    measured: bool
    """and whether an iteration was seen to be made; if not, the first takes `pace_s` at least."""
    sure: bool
    """Whether it is known well enough to give up."""
    overspent: bool
    """Whether the coming period costs far more than may be spent on one."""
    stale_s: float
    """How long ago the monitor looked: what was done since is not counted in `work`."""
    news: News
    """What all this was read from."""

    @property
    def hopeless(self) -> bool:
        """Whether the deadline can't be met, whatever was done since the monitor looked."""
        return self.sure and grace_s(self.work, self.left_s) + self.stale_s < 0


def usable_s(left_s: float, interval_s: float) -> float:
    """The time to plan with, of so much that is left."""
    return max(left_s - SPARE_PERIODS * interval_s, left_s * (1 - SPARE_MOST))


def in_words(scene: Scene, spare_s: float) -> str:
    """How far it is, and when it will be done."""
    work = scene.work
    said = f"{int(work.done)} of {work.steps} iterations, {scene.pace_s:.3g} s each"
    away = "" if scene.whole else "; not all of its VMs run"
    if isinf(spare_s):
        return f"{said}{away}"
    if spare_s >= 0:
        return f"{said}: done {spare_s:.0f} s before the deadline{away}"
    least_s = least_deadline_s(work, scene.reachable_step_s)
    return f"{said}: {-spare_s:.0f} s late; could be done in {least_s:.0f} s{away}"


def too_late(scene: Scene) -> str:
    """Why no deadline can be met."""
    return (
        f"{scene.work.left:.0f} iterations are left and take {scene.work.ideal_s:.0f} s at least,"
        f" with {max(scene.left_s, 0.0):.0f} s to the deadline"
    )
