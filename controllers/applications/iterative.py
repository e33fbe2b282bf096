"""The base for applications with a known number of iterations.

Each period it compares an iteration's time with the one that is needed, moves the bids of all
VMs (Algorithm 2), suspends the platform where the price is too high for it, and tells its tenant
whether it will make it. What is needed is a kind's own; when to suspend is the rule by which the
daemon resumes (`merkatd/policies/suspension.py`).
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import inf
from typing import Final

from controllers.applications.application_progress import Progress
from controllers.applications.market_position import (
    LEAST_BID,
    DecisionInput,
    UnresponsiveVms,
    all_run,
    bidding,
    cost_of,
    held_part,
    in_words,
    market_without,
    purse,
    to_make_anew,
    too_late,
    traces_of,
    traces_to_keep,
    usable_s,
    vm_positions,
)
from controllers.applications.parts import Parts, slowest
from controllers.applications.shares import Shares
from controllers.controller import Controller
from merkatd.base.parameter_bounds import whole
from merkatd.policies.deadline import least_part, reference_s, worthwhile
from merkatd.policies.horizontal import Prices
from merkatd.policies.suspension import Case, payable_part, spending, suspends
from merkatd.policies.vertical import Performance, SpendingLimit, VmPosition, adapt
from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.platform_messages import ClusterTerms, News, VmNow

PATIENCE: Final = 2
"""So many periods in a row must want a suspension: prices swing while others settle."""
LAST_HOPE: Final = 4
"""So many periods in a row the deadline must be out of reach before the work is given up: a pace
that was seen on a busy host, or just after a start, may be far from the best."""
DRAIN: Final = 3.0
"""Where a period costs so many times what may be spent on it, the first one is enough."""
IDLE_PART: Final = 1e-3
"""Of what may be spent on a VM: what is bid at least for each resource, also where nobody else
bids. From nothing a bid would take many periods to rise when others come."""
UNKNOWN_PART: Final = 0.25
"""Of what may be spent in a period: no more is bid before the pace is known. Where there is no room
for a part worth having of each, those that start together would bid each other up to all that they
may spend, and then be suspended for a price that they made."""
_PROGRESS, _TRACES, _DEAR, _DEADLINE = "progress", "traces", "dear", "deadline"
_LOST = "lost"
_ABSENT, _RESUMED, _HEARD = "absent", "resumed_in", "heard"
_SHARES: Final = "shares"
_SUSPENDING: Final = "suspending"


class Iterative(Controller):
    """Override `judged` and `gives_up`; for another way to bid, `goes_on` and `bid`."""

    _hears = False
    """Whether this process has heard news."""

    def judged(self, scene: DecisionInput) -> Performance:
        """What is compared with what."""
        raise NotImplementedError

    @property
    def gives_up(self) -> bool:
        """Whether the work is worth nothing once its deadline can't be met."""
        return False

    def why(self, judged: Performance) -> str:
        """What its tenant reads of a bid."""
        return f"an iteration takes {judged.value:.3g} s, {judged.reference:.3g} s would do"

    @property
    def steps(self) -> int:
        """The iterations to be made (n_steps)."""
        return whole(self.assignment.parameters, "steps")

    async def on_start(self) -> None:
        """A template without the number of iterations can't be looked after."""
        if not isinstance(self.assignment.parameters.get("steps"), int | float):
            await self.give_up("controller.parameters.steps, the number of iterations, is missing")

    async def on_progress(self, measured: Measured) -> None:
        """Remember how far it is."""
        most_s = 2 * self.assignment.interval_s
        parts = self._parts().after(measured.cluster, measured.at_s, measured.values, most_s)
        self.memory[_PROGRESS] = parts.kept()
        absent = UnresponsiveVms.of(self.memory.get(_ABSENT, {}))
        self.memory[_ABSENT] = absent.after(measured.cluster, measured.values).kept()
        shares = self._shares().after(measured.cluster, measured.values, self.steps)
        self.memory[_SHARES] = shares.kept()

    async def on_price(self, news: News) -> None:
        """Bid, suspend, end; and say how it goes."""
        self._hear(news)
        parts = self._parts()
        if await self._ended(self._counting(parts, news)):
            return
        if news.state == _SUSPENDING:  # nothing of it bids any more
            return
        await self._replace(news)
        vms = bidding(news.vms)
        if not vms:
            return
        market = market_without(news)
        standings = self._standings(vms, market, news)
        scene = self._scene(parts, standings, vms, market, news)
        if await self._given_up(scene):
            return
        await self._tell(scene)
        if await self.goes_on(scene):
            await self.bid(scene, standings)

    def _hear(self, news: News) -> None:
        """Remember in which period it was resumed.

        Its process is ended while it is suspended, and may begin when it is up again: one that
        missed periods takes it for resumed.
        """
        period, state = self.memory.get(_HEARD, (None, ""))
        begins = not self._hears and bool(self.assignment.memory)
        missed = begins and (period is None or news.period > period + 1)
        ended = state == _SUSPENDING and news.state != _SUSPENDING
        if news.state == "resuming" or missed or ended:
            self.memory[_RESUMED] = news.period
        self.memory[_HEARD] = news.period, news.state
        self._hears = True

    async def _ended(self, parts: Mapping[str, Progress]) -> bool:
        """Whether one of its parts has failed, or all of them are over, and its tenant told so."""
        exits = [one.exit for one in parts.values() if one.exit is not None]
        code = max(exits, key=abs, default=0)
        if code:
            await self.give_up(f"the application ended with code {code}")
            return True
        if not all(one.over(self.steps) for one in parts.values()):
            return False
        done = min(one.done for one in parts.values())
        ended = f"the application has ended well, with {done} of {self.steps} iterations seen"
        await self.done(ended if exits else f"all {self.steps} iterations are made")
        return True

    def _counting(self, parts: Parts, news: News) -> Mapping[str, Progress]:
        """Those that have a part in the work, with what VMs that are away have to do."""
        absent = UnresponsiveVms.of(self.memory.get(_ABSENT, {}))
        counting = parts.counting(self._unheard(news))
        whole = all_run(news)
        return self._shares().counted(counting, absent, news, self.steps, whole=whole)

    def _shares(self) -> Shares:
        return Shares.of(self.memory.get(_SHARES, {}))

    def _unheard(self, news: News) -> AbstractSet[str]:
        """Clusters whose monitors have told nothing yet."""
        heard = UnresponsiveVms.of(self.memory.get(_ABSENT, {})).by_cluster.keys()
        watched = {one.name for one in self.assignment.clusters if one.monitor is not None}
        return {name for name in watched - heard if news.sizes.get(name, 0)}

    async def _replace(self, news: News) -> None:
        """Have VMs made anew that are of no use."""
        shares = self._shares()
        self.memory[_SHARES] = shares.kept({one.vm for one in news.vms})
        spared = shares.over(news, self.steps)
        for order in to_make_anew(self.assignment, news, self.memory, spared):
            there = sum(one.cluster == order.cluster for one in news.vms)
            size = news.sizes.get(order.cluster, there)
            await self.set_size(order.cluster, size, victims=order.vms, reason=order.why)

    def _standings(self, vms: list[VmNow], market: Prices, news: News) -> dict[int, VmPosition]:
        terms = self._terms()
        names = tuple(news.prices)
        return {one.vm: vm_positions(terms[one.cluster], one, market, names) for one in vms}

    def _terms(self) -> Mapping[str, ClusterTerms]:
        return {one.name: one for one in self.assignment.clusters}

    def _case(self, work_s: float, market: Prices, news: News) -> Case:
        """What the rule of suspensions judges: all VMs that the platform is to have."""
        full = [
            sum(
                one.ceiling.get(name, 0.0) * news.sizes.get(one.name, 0)
                for one in self.assignment.clusters
            )
            for name in news.prices
        ]
        resumed = self.memory.get(_RESUMED)
        # In periods: a clock that is set makes no rest longer or shorter.
        rested = inf if resumed is None else abs(news.period - int(resumed))
        return Case(
            purse=purse(self.assignment, news),
            left_s=self.left_s(),
            work_s=work_s,
            least_part=least_part(self.assignment.controller, self.assignment.parameters),
            full=full,
            prices=market,
            interval_s=self.assignment.interval_s,
            since_s=rested * self.assignment.interval_s,
        )

    def _scene(
        self,
        parts: Parts,
        standings: Mapping[int, VmPosition],
        vms: list[VmNow],
        market: Prices,
        news: News,
    ) -> DecisionInput:
        running = [one.vm for one in vms if one.state == "running" and not one.leaving]
        held = min((held_part(standings[vm]) for vm in running), default=0.0)
        whole = all_run(news)
        most_s = 2 * self.assignment.interval_s
        parts = parts.told_of_vms(news.at_s, held, most_s, whole=whole)
        self.memory[_PROGRESS] = parts.kept()
        counting = self._counting(parts, news).values()
        progress = slowest(counting, self.steps, self.assignment.ideal_s)
        work = progress.work(self.steps, self.assignment.ideal_s)
        case = self._case(work.ideal_s, market, news)
        there = spending(case.purse, case.left_s, case.interval_s)
        part = payable_part(there, case.full, case.prices)
        return DecisionInput(
            work=work,
            left_s=self.left_s(),
            usable_s=usable_s(self.left_s(), self.assignment.interval_s),
            pace_s=progress.pace_s(work.ideal_step_s),
            reachable_step_s=work.ideal_step_s / max(part, 1e-9),
            part=part,
            held=held,
            whole=whole,
            names=tuple(news.prices),
            case=case,
            spending=there,
            measured=progress.measured or self.assignment.ideal_s is not None,
            sure=progress.sure or self.assignment.ideal_s is not None,
            overspent=cost_of(vms, news) > DRAIN * there,
            news=news,
            seen=progress.told or progress.done > 0 or self.assignment.ideal_s is not None,
            stale_s=max(self.now_s - progress.seen_s, 0.0) if progress.seen_s else 0.0,
        )

    async def _given_up(self, scene: DecisionInput) -> bool:
        """Whether all hope is lost, and its tenant told so."""
        hopeless = self.gives_up and scene.hopeless
        if self._in_a_row(_LOST, scene.news.period, holds=hopeless) < LAST_HOPE:
            return False
        await self.give_up(too_late(scene))
        return True

    async def goes_on(self, scene: DecisionInput) -> bool:
        """Whether it is to run in the next period; what else is asked for at once."""
        if not scene.sure:
            return True
        dear = self._in_a_row(_DEAR, scene.news.period, holds=suspends(scene.case))
        if dear < PATIENCE and not (dear and scene.overspent):
            return True
        self.memory[_DEAR] = 0, scene.news.period
        await self.suspend(f"what may be spent buys {scene.part:.0%} of what its VMs can use")
        return False

    def _in_a_row(self, name: str, period: int, *, holds: bool) -> int:
        """In how many periods in a row something holds, with this one.

        After a restart a controller is told of the last period once more, and counts it once.
        """
        count, last = self.memory.get(name, (0, 0))
        if not holds:
            count, last = 0, 0
        elif period != last:
            count, last = count + 1, period
        self.memory[name] = count, last
        return int(count)

    def compared(self, scene: DecisionInput) -> tuple[Performance, float]:
        """What the bids are judged by, `judged` once something is known, and what may be spent.

        Before that whoever bids all that may be spent pays for nothing, and two who do so take
        each other's money: a part worth having is enough, until the first iteration alone takes
        longer than it may. With next to nothing no monitor would ever be answered.
        """
        judged = self.judged(scene)
        if scene.held and (scene.measured or judged.slow):
            return judged, scene.spending
        part = 1.0 if scene.measured else UNKNOWN_PART
        return worthwhile(scene.held or 1.0), scene.spending * part

    async def bid(self, scene: DecisionInput, standings: Mapping[int, VmPosition]) -> None:
        """What is bid for each VM in the next period, and why."""
        judged, may_spend = self.compared(scene)
        each = may_spend / len(standings)
        means = SpendingLimit(bid_min=max(LEAST_BID, each * IDLE_PART), bid_max=each)
        # Another deadline makes all that was learned of the pace worth nothing.
        same = self.memory.get(_DEADLINE) == self.deadline_s
        self.memory[_DEADLINE] = self.deadline_s
        traces = traces_of(self.memory.get(_TRACES, {})) if same else {}
        bids, seen = {}, {}
        for vm, now in standings.items():
            # The daemon takes the bids back when a controller fails. A bid of nothing buys
            # nothing, so that no pace would ever be seen, and it would stay.
            asked = replace(now, bid=tuple(max(one, means.bid_min) for one in now.bid))
            adapted = adapt(asked, judged, means, traces.get(vm, ()))
            bids[vm] = dict(zip(scene.names, adapted.bid, strict=True))
            seen[vm] = adapted.traces
        self.memory[_TRACES] = traces_to_keep(seen)
        known = scene.measured and scene.held > 0
        await self.set_bids(bids, self.why(judged) if known else "its pace is not known yet")

    async def _tell(self, scene: DecisionInput) -> None:
        """Say in each report how much is done and left: the daemon judges by the last one."""
        work, left_s = scene.work, scene.left_s
        known: dict[str, float | None] = {
            "done": work.done / max(work.steps, 1) if scene.seen else None,
            "work_left_s": work.ideal_s if scene.sure else None,
        }
        if not scene.measured:
            await self.report(**known, text="no iteration has been seen yet")
            return
        if not scene.held:
            await self.report(**known, text="none of its VMs runs yet, or they get nothing")
            return
        needs_s = work.left * scene.pace_s
        spare_s = left_s - needs_s
        await self.report(
            **known,
            on_track=spare_s >= 0,
            projected_end_s=self.now_s + needs_s,
            performance=scene.pace_s,
            reference=reference_s(work, scene.usable_s) if self.deadline_s is not None else None,
            text=in_words(scene, spare_s),
        )

    def _parts(self) -> Parts:
        return Parts.of(self.memory.get(_PROGRESS, {}), [*self._terms()])
