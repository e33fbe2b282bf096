"""The base class of controllers for applications with a known number of iterations.

Each period the controller compares an iteration's time with the needed time, and adapts the bids of
all VMs (Algorithm 2). It suspends the platform if the price is too high, and reports the expected
end to the tenant. Each subclass defines the needed performance. The daemon resumes by the same rule
by which controllers suspend (`merkatd/policies/suspension.py`).
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from controllers.applications.application_progress import Progress
from controllers.applications.decision_counts import (
    NEARLY,
    intervals_in_a_row,
    note_rest,
    rested_s,
)
from controllers.applications.market_position import (
    LEAST_BID,
    DecisionInput,
    UnresponsiveVms,
    all_run,
    available_credits,
    bidding,
    cost_of,
    has_market,
    held_part,
    market_without,
    progress_text,
    to_make_anew,
    traces_of,
    traces_to_keep,
    usable_s,
    vm_positions,
    why_too_late,
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
"""Intervals in a row that must call for a suspension, as prices swing while other bids settle."""
LAST_HOPE: Final = 4
"""Intervals in a row in which the deadline must be out of reach before the controller gives up: a
pace measured on a busy host, or just after a start, may be far from the best."""
DRAIN: Final = 3.0
"""The ratio of a period's cost to the spending limit from which one such period is enough."""
IDLE_PART: Final = 1e-3
"""The least bid for each resource, as a part of a VM's spending limit, even without other bidders.
From 0, a bid would take many periods to rise when others come."""
UNKNOWN_PART: Final = 0.25
"""The part of the spending limit that bids may use before the pace is known. Otherwise platforms
that start together on a full market would bid each other up to all their spending limits. Then they
would all be suspended because of the price that they made."""
_PROGRESS, _TRACES, _DEAR, _DEADLINE = "progress", "traces", "dear", "deadline"
_LOST = "lost"
_ABSENT, _HEARD = "absent", "heard"
_SHARES: Final = "shares"
_SUSPENDING: Final = "suspending"


class Iterative(Controller):
    """A controller for iterations. Override `judged` and `gives_up`, or `goes_on` and `bid`."""

    _news: News | None = None
    """The last news that this process has received."""
    _is_over = False
    """Whether the daemon has accepted that the work is done."""

    def judged(self, decision_input: DecisionInput) -> Performance:
        """Return the performance that the bids must improve."""
        raise NotImplementedError

    @property
    def gives_up(self) -> bool:
        """Return whether the work is worth nothing once its deadline can't be met."""
        return False

    def why(self, judged: Performance) -> str:
        """Return the reason of a bid, for the tenant."""
        return f"an iteration takes {judged.value:.3g} s, the target is {judged.reference:.3g} s"

    def summary(self, decision_input: DecisionInput, spare_s: float) -> str:
        """Describe the progress, for the tenant."""
        return progress_text(decision_input, spare_s)

    @property
    def steps(self) -> int:
        """Return the number of iterations (n_steps)."""
        return whole(self.assignment.parameters, "steps")

    async def on_start(self) -> None:
        """Give up if the template lacks the number of iterations."""
        if not isinstance(self.assignment.parameters.get("steps"), int | float):
            await self.give_up("controller.parameters.steps, the number of iterations, is missing")

    async def on_progress(self, measured: Measured) -> None:
        """Record the progress."""
        most_s = 2 * self.assignment.interval_s
        parts = self._parts().after(measured.cluster, measured.at_s, measured.values, most_s)
        self.memory[_PROGRESS] = parts.kept()
        absent = UnresponsiveVms.of(self.memory.get(_ABSENT, {}))
        self.memory[_ABSENT] = absent.after(measured.cluster, measured.values).kept()
        shares = self._shares().after(measured.cluster, measured.values, self.steps)
        self.memory[_SHARES] = shares.kept()
        await self._end_early()

    async def on_price(self, news: News) -> None:
        """Bid, suspend or end, and report the progress."""
        note_rest(self.assignment, self.memory, _HEARD, news, new=self._news is None)
        self._news = news
        parts = self._parts()
        if await self._ended(self._counting(parts, news)):
            return
        if news.state == _SUSPENDING or not has_market(news):  # its VMs no longer bid
            return
        await self._replace(news)
        if not (vms := bidding(news.vms)):
            return
        market = market_without(news)
        standings = vm_positions(self._terms(), vms, market, tuple(news.prices))
        scene = self._scene(parts, standings, vms, market, news)
        if await self._given_up(scene):
            return
        await self._tell(scene)
        if await self.goes_on(scene):
            await self.bid(scene, standings)

    async def _end_early(self) -> None:
        """End the platform between decisions if all its programs have ended, with all iterations.

        Until the next decision its VMs would cost credits, and its deadline might pass. A program
        that has made all iterations but still runs may be writing its results.
        """
        if self._news is None:
            return
        counting = self._counting(self._parts(), self._news)
        made = all(part.exit == 0 and part.done >= self.steps for part in counting.values())
        if made and self._watched(self._news) <= counting.keys():
            await self._ended(counting)

    async def _ended(self, parts: Mapping[str, Progress]) -> bool:
        """End the platform if a part has failed or all parts have ended; return whether it ends."""
        if self._is_over:
            return True
        exits = [part.exit for part in parts.values() if part.exit is not None]
        code = max(exits, key=abs, default=0)
        if code:
            await self.give_up(f"the application ended with code {code}")
            return True
        if not all(part.over(self.steps) for part in parts.values()):
            return False
        done = min(part.done for part in parts.values())
        ended = f"the application ended successfully, with {done} of {self.steps} iterations seen"
        outcome = await self.done(ended if exits else f"all {self.steps} iterations are done")
        self._is_over = outcome.accepted
        return True

    def _counting(self, parts: Parts, news: News) -> Mapping[str, Progress]:
        """Return the parts that take part in the work, corrected for VMs that are away."""
        absent = UnresponsiveVms.of(self.memory.get(_ABSENT, {}))
        counting = parts.counting(self._unheard(news))
        whole = all_run(news)
        return self._shares().counted(counting, absent, news, self.steps, whole=whole)

    def _shares(self) -> Shares:
        return Shares.of(self.memory.get(_SHARES, {}))

    def _unheard(self, news: News) -> AbstractSet[str]:
        """Return the clusters whose monitors have not reported yet."""
        heard = UnresponsiveVms.of(self.memory.get(_ABSENT, {})).by_cluster.keys()
        return self._watched(news) - heard

    def _watched(self, news: News) -> AbstractSet[str]:
        """Return the clusters with VMs and a monitor."""
        terms = self._terms().items()
        watched = {name for name, cluster in terms if cluster.monitor is not None}
        return {name for name in watched if news.sizes.get(name, 0)}

    async def _replace(self, news: News) -> None:
        """Request the replacement of VMs that never answered or are gone."""
        shares = self._shares()
        self.memory[_SHARES] = shares.kept({vm.vm for vm in news.vms})
        spared = shares.over(news, self.steps)
        for order in to_make_anew(self.assignment, news, self.memory, spared):
            there = sum(vm.cluster == order.cluster for vm in news.vms)
            size = news.sizes.get(order.cluster, there)
            await self.set_size(order.cluster, size, victims=order.vms, reason=order.why)

    def _terms(self) -> Mapping[str, ClusterTerms]:
        return {cluster.name: cluster for cluster in self.assignment.clusters}

    def _case(self, work_s: float, market: Prices, news: News) -> Case:
        """Return the input of the suspension rule, for all VMs that the platform should have."""
        full = [
            sum(
                cluster.ceiling.get(name, 0.0) * news.sizes.get(cluster.name, 0)
                for cluster in self.assignment.clusters
            )
            for name in news.prices
        ]
        return Case(
            purse=available_credits(self.assignment, news),
            left_s=self.left_s(),
            work_s=work_s,
            least_part=least_part(self.assignment.controller, self.assignment.parameters),
            full=full,
            prices=market,
            interval_s=self.assignment.interval_s,
            since_s=rested_s(self.assignment, self.memory),
        )

    def _scene(
        self,
        parts: Parts,
        standings: Mapping[int, VmPosition],
        vms: list[VmNow],
        market: Prices,
        news: News,
    ) -> DecisionInput:
        running = [vm.vm for vm in vms if vm.state == "running" and not vm.leaving]
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
            seen=progress.reported or progress.done > 0 or self.assignment.ideal_s is not None,
            stale_s=max(self.now_s - progress.seen_s, 0.0) if progress.seen_s else 0.0,
        )

    async def _given_up(self, decision_input: DecisionInput) -> bool:
        """Give up if the deadline stays out of reach; return whether it did."""
        lost, news = self.gives_up and decision_input.hopeless, decision_input.news
        if self._in_a_row(_LOST, news, holds=lost) < LAST_HOPE - NEARLY:
            return False
        await self.give_up(why_too_late(decision_input))
        return True

    async def goes_on(self, decision_input: DecisionInput) -> bool:
        """Return whether the platform runs in the next period; suspend it if not."""
        if not decision_input.sure:
            return True
        news = decision_input.news
        dear = self._in_a_row(_DEAR, news, holds=suspends(decision_input.case))
        if dear < PATIENCE - NEARLY and not (dear and decision_input.overspent):
            return True
        self.memory[_DEAR] = 0, news.at_s
        bought = f"{decision_input.part:.0%} of its VMs' full size"
        await self.suspend(f"its spending limit buys {bought}")
        return False

    def _in_a_row(self, name: str, news: News, *, holds: bool) -> float:
        return intervals_in_a_row(self.assignment, self.memory, name, news, holds=holds)

    def compared(self, decision_input: DecisionInput) -> tuple[Performance, float]:
        """Return the performance for the bids, and the spending limit.

        Once the pace is measured, this is `judged`. Before that, bidding the whole limit would
        waste credits, and two such platforms would only drive up each other's price. So a
        worthwhile part is enough, until the first iteration takes longer than it may. The part must
        not be close to 0, or VMs would never answer their monitor.
        """
        judged = self.judged(decision_input)
        if decision_input.held and (decision_input.measured or judged.slow):
            return judged, decision_input.spending
        part = 1.0 if decision_input.measured else UNKNOWN_PART
        return worthwhile(decision_input.held or 1.0), decision_input.spending * part

    async def bid(self, decision_input: DecisionInput, standings: Mapping[int, VmPosition]) -> None:
        """Set the bids of all VMs for the next period."""
        judged, may_spend = self.compared(decision_input)
        each = may_spend / len(standings)
        means = SpendingLimit(bid_min=max(LEAST_BID, each * IDLE_PART), bid_max=each)
        # After a change of the deadline the old traces no longer apply.
        same = self.memory.get(_DEADLINE) == self.deadline_s
        self.memory[_DEADLINE] = self.deadline_s
        traces = traces_of(self.memory.get(_TRACES, {})) if same else {}
        bids, seen = {}, {}
        for vm, now in standings.items():
            # The daemon sets bids to 0 when a controller fails. A bid of 0 buys nothing, so no
            # pace would ever be measured, and the bid would stay at 0.
            asked = replace(now, bid=tuple(max(amount, means.bid_min) for amount in now.bid))
            adapted = adapt(asked, judged, means, traces.get(vm, ()))
            bids[vm] = dict(zip(decision_input.names, adapted.bid, strict=True))
            seen[vm] = adapted.traces
        self.memory[_TRACES] = traces_to_keep(seen)
        known = decision_input.measured and decision_input.held > 0
        await self.set_bids(bids, self.why(judged) if known else "its pace is not known yet")

    async def _tell(self, decision_input: DecisionInput) -> None:
        """Report the progress, always with finished and remaining work, which the daemon needs."""
        work, usable_s = decision_input.work, decision_input.usable_s
        known: dict[str, float | None] = {
            "done": work.done / max(work.steps, 1) if decision_input.seen else None,
            "work_left_s": work.ideal_s if decision_input.sure else None,
        }
        if not (decision_input.measured and decision_input.held):
            idle = "none of its VMs runs yet, or they have no allocation"
            text = idle if decision_input.measured else "no iteration has been seen yet"
            await self.report(**known, text=text)
            return
        pace_s = decision_input.pace_s
        needs_s = work.left * pace_s
        spare_s = decision_input.left_s - needs_s
        await self.report(
            **known,
            on_track=spare_s >= 0,
            projected_end_s=self.now_s + needs_s,
            performance=pace_s,
            reference=None if self.deadline_s is None else reference_s(work, usable_s),
            text=self.summary(decision_input, spare_s),
        )

    def _parts(self) -> Parts:
        return Parts.of(self.memory.get(_PROGRESS, {}), [*self._terms()])
