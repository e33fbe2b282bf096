"""The base of controllers for applications that make a known number of iterations (section 3.1).

Each period it compares an iteration's time with the one that is needed, moves the bids of all
VMs (Algorithm 2), suspends the platform where the price is too high for it, and tells its tenant
whether it will make it. What is needed, and when to suspend, is a kind's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf
from typing import Final

from controllers.applications.progress import Progress
from controllers.applications.replacing import OFF, OFF_S, Absent, overdue
from controllers.applications.trading import (
    LEAST_BID,
    bidding,
    held_part,
    kept,
    market_without,
    most,
    part_for,
    purse,
    standing,
    traces_of,
)
from controllers.controller import Controller
from controllers.policies.bound import Prices
from controllers.policies.deadline import (
    Verdict,
    Work,
    bid_max,
    grace_s,
    least_deadline_s,
    reference_s,
)
from controllers.policies.minimum import lacking
from controllers.policies.vertical import Means, Performance, Standing, adapt
from merkatd.bus.messages import Measured
from merkatd.platforms.ports import ClusterTerms, News, VmNow

PATIENCE: Final = 2
"""So many periods in a row must want a suspension: prices swing while others settle."""
SPARE_PERIODS: Final = 2
"""So many periods before its deadline the work is to be done,"""
SPARE_MOST: Final = 0.75
"""but for no more than this part of what is left."""
DRAIN: Final = 3.0
"""Where a period costs so many times what may be spent on it, the first one is enough."""
HORIZON_S: Final = 86_400.0
"""Where there is no deadline, what there is has to last for so long."""
IDLE_PART: Final = 1e-3
"""Of what may be spent on a VM: what is bid at least for each resource, also where nobody else
bids. From nothing a bid would take many periods to rise when others come."""
_PROGRESS, _TRACES, _DEAR, _DEADLINE = "progress", "traces", "dear", "deadline"
_ABSENT, _OFF = "absent", "off"


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
    """The part that they have now."""
    names: tuple[str, ...]
    """Of the resources."""
    measured: bool
    """Whether anything is known of the pace; if not, `pace_s` says nothing."""
    overspent: bool
    """Whether the coming period costs far more than may be spent on one."""
    stale_s: float
    """How long ago the monitor looked: what was done since is not counted in `work`."""
    news: News
    """What all this was read from."""

    @property
    def hopeless(self) -> bool:
        """Whether the deadline can't be met, whatever was done since the monitor looked."""
        return grace_s(self.work, self.left_s) + self.stale_s < 0


class Iterative(Controller):
    """Override `judged` and `verdict`; for another way to bid, `goes_on` and `bid`."""

    def judged(self, scene: Scene) -> Performance:
        """What is compared with what."""
        raise NotImplementedError

    def verdict(self, scene: Scene) -> Verdict:
        """Whether to go on."""
        raise NotImplementedError

    def why(self, judged: Performance) -> str:
        """What its tenant reads of a bid."""
        return f"an iteration takes {judged.value:.3g} s, {judged.reference:.3g} s would do"

    @property
    def steps(self) -> int:
        """The iterations to be made (n_steps)."""
        return int(self.assignment.parameters["steps"])

    async def on_start(self) -> None:
        """A template without the number of iterations can't be looked after."""
        if not isinstance(self.assignment.parameters.get("steps"), int | float):
            await self.give_up("controller.parameters.steps, the number of iterations, is missing")

    async def on_progress(self, measured: Measured) -> None:
        """Remember how far it is."""
        most_s = 2 * self.assignment.interval_s
        progress = self._progress().after(measured.at_s, measured.values, most_s)
        self.memory[_PROGRESS] = progress.kept()
        absent = Absent.of(self.memory.get(_ABSENT, {}))
        self.memory[_ABSENT] = absent.after(measured.cluster, measured.values).kept()

    async def on_price(self, news: News) -> None:
        """Bid, suspend, end; and say how it goes."""
        progress = self._progress()
        if progress.exit is not None and (progress.exit or progress.done >= self.steps):
            await self._ended(progress.exit)
            return
        if progress.done >= self.steps:
            await self.done(f"all {self.steps} iterations are made")
            return
        if news.state == "suspending":  # nothing of it bids any more
            return
        await self._replace(news)
        vms = bidding(news.vms)
        if not vms:
            return
        market = market_without(news)
        standings = self._standings(vms, market, news)
        spending = self._spending(news)
        scene = self._scene(progress, standings, vms, market, spending, news)
        if await self.goes_on(scene):
            await self.bid(scene, standings, spending)
            await self._tell(scene)

    async def _ended(self, code: int) -> None:
        if code:
            await self.give_up(f"the application ended with code {code}")
        else:
            await self.done("the application has ended well")

    async def _replace(self, news: News) -> None:
        """Have VMs made anew that are said to run but were never reached, or that went out."""
        absent = Absent.of(self.memory.get(_ABSENT, {}))
        off = [one.vm for one in news.vms if one.state == OFF and news.state == "running"]
        limit_s = float(self.assignment.parameters.get("off_limit_s", OFF_S))
        self.memory[_OFF], out = overdue(off, self.memory.get(_OFF, {}), news.at_s, limit_s)
        for terms in self.assignment.clusters:
            mine = {one.vm for one in news.vms if one.cluster == terms.name}
            size = news.sizes.get(terms.name, len(mine))
            for gone, why in (
                (absent.to_replace(terms, news.vms), "never answered"),
                (tuple(vm for vm in out if vm in mine), "was found to be off"),
            ):
                if gone:
                    await self.set_size(terms.name, size, victims=gone, reason=why)

    def _standings(self, vms: list[VmNow], market: Prices, news: News) -> dict[int, Standing]:
        terms = self._terms()
        names = tuple(news.prices)
        return {one.vm: standing(terms[one.cluster], one, market, names) for one in vms}

    def _terms(self) -> Mapping[str, ClusterTerms]:
        return {one.name: one for one in self.assignment.clusters}

    def _spending(self, news: News) -> float:
        """What may be spent in a period on all VMs."""
        left_s = HORIZON_S if self.deadline_s is None else self.left_s()
        return bid_max(purse(self.assignment, news), left_s, self.assignment.interval_s, 1)

    def _scene(
        self,
        progress: Progress,
        standings: Mapping[int, Standing],
        vms: list[VmNow],
        market: Prices,
        spending: float,
        news: News,
    ) -> Scene:
        running = [one.vm for one in vms if one.state == "running"]
        held = min((held_part(standings[vm]) for vm in running), default=0.0)
        progress = progress.until(news.at_s, held, 2 * self.assignment.interval_s)
        self.memory[_PROGRESS] = progress.kept()
        terms, names = self._terms(), tuple(news.prices)
        largest = max((most(terms[one.cluster], names) for one in vms), key=sum)
        part = part_for(spending, len(vms), largest, market)
        work = progress.work(self.steps, self.assignment.ideal_s)
        return Scene(
            work=work,
            left_s=self.left_s(),
            usable_s=usable_s(self.left_s(), self.assignment.interval_s),
            pace_s=progress.pace_s(work.ideal_step_s),
            reachable_step_s=work.ideal_step_s / max(part, 1e-9),
            part=part,
            held=held,
            names=names,
            measured=progress.measured or self.assignment.ideal_s is not None,
            overspent=_cost(vms, news) > DRAIN * spending,
            news=news,
            stale_s=min(max(self.now_s - progress.seen_s, 0.0), 2 * self.assignment.interval_s),
        )

    async def goes_on(self, scene: Scene) -> bool:
        """Whether it is to run in the next period; what else is asked for at once."""
        if not scene.measured:
            return True
        wanted = self.verdict(scene)
        if wanted is Verdict.STOP and scene.hopeless:
            await self.give_up(_too_late(scene))
            return False
        dear = int(self.memory.get(_DEAR, 0)) + 1 if wanted is Verdict.SUSPEND else 0
        self.memory[_DEAR] = dear % PATIENCE
        if dear < PATIENCE and not (dear and scene.overspent):
            return True
        self.memory[_DEAR] = 0
        await self.suspend(f"what may be spent buys {scene.part:.0%} of what its VMs can use")
        return False

    async def bid(self, scene: Scene, standings: Mapping[int, Standing], spending: float) -> None:
        """What is bid for each VM in the next period, and why."""
        each = spending / len(standings)
        means = Means(bid_min=max(LEAST_BID, each * IDLE_PART), bid_max=each)
        # Until something is known of its pace it takes all that it can pay for.
        judged = self.judged(scene) if scene.measured else lacking(scene.held)
        # Another deadline makes all that was learned of the pace worth nothing.
        same = self.memory.get(_DEADLINE) == self.deadline_s
        self.memory[_DEADLINE] = self.deadline_s
        traces = traces_of(self.memory.get(_TRACES, {})) if same else {}
        bids, seen = {}, {}
        for vm, now in standings.items():
            adapted = adapt(now, judged, means, traces.get(vm, ()))
            bids[vm] = dict(zip(scene.names, adapted.bid, strict=True))
            seen[vm] = adapted.traces
        self.memory[_TRACES] = kept(seen)
        known = scene.measured and scene.held > 0
        await self.set_bids(bids, self.why(judged) if known else "its pace is not known yet")

    async def _tell(self, scene: Scene) -> None:
        if not scene.measured:
            await self.report(text="no iteration has been seen yet")
            return
        if not scene.held:
            await self.report(text="none of its VMs runs yet, or they get nothing")
            return
        work, left_s = scene.work, scene.left_s
        needs_s = work.left * scene.pace_s
        spare_s = left_s - needs_s
        await self.report(
            on_track=spare_s >= 0,
            projected_end_s=self.now_s + needs_s,
            performance=scene.pace_s,
            reference=reference_s(work, scene.usable_s) if self.deadline_s is not None else None,
            done=work.done / max(work.steps, 1),
            text=_in_words(scene, spare_s),
        )

    def _progress(self) -> Progress:
        return Progress.of(self.memory.get(_PROGRESS, {}))


def usable_s(left_s: float, interval_s: float) -> float:
    """The time to plan with, of so much that is left."""
    return max(left_s - SPARE_PERIODS * interval_s, left_s * (1 - SPARE_MOST))


def _cost(vms: list[VmNow], news: News) -> float:
    """What the coming period is charged for: all that is held, whatever was bid for it."""
    return sum(news.prices[name] * amount for one in vms for name, amount in one.allocation.items())


def _in_words(scene: Scene, spare_s: float) -> str:
    work = scene.work
    said = f"{int(work.done)} of {work.steps} iterations, {scene.pace_s:.3g} s each"
    if isinf(spare_s):
        return said
    if spare_s >= 0:
        return f"{said}: done {spare_s:.0f} s before the deadline"
    least_s = least_deadline_s(work, scene.reachable_step_s)
    return f"{said}: {-spare_s:.0f} s late; could be done in {least_s:.0f} s"


def _too_late(scene: Scene) -> str:
    return (
        f"{scene.work.left:.0f} iterations are left and take {scene.work.ideal_s:.0f} s at least,"
        f" with {max(scene.left_s, 0.0):.0f} s to the deadline"
    )
