"""The controller of a batch system whose workers grow and shrink with its queue and the price.

It applies Algorithm 4 with care. It requests few workers at once. It requests none right after it
had to release workers that became too expensive, and none while others are still joining in time.
It drains a worker before it releases it, so that no job is lost. It always pays for the head first.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from controllers.applications.cooldown import Cooldown
from controllers.applications.crew import Crew, CrewTerms, head_bids
from controllers.applications.joining import Joining
from controllers.applications.market_position import (
    available_credits,
    bidding,
    has_market,
    market_without,
    most,
)
from controllers.controller import Controller
from controllers.measurements import CLOSED, JOBS
from controllers.monitors.batch_systems.batch_system import left_of
from controllers.monitors.queue_monitor import ClusterHead
from controllers.monitors.queues.systems import batch_of
from controllers.monitors.ssh_pool import CommandResult
from merkatd.base.parameter_bounds import number
from merkatd.policies.batch_queue import (
    QueueAim,
    QueueLoad,
    by_clock,
    queue_performance,
    workers_to_release,
)
from merkatd.policies.deadline import bid_max
from merkatd.policies.horizontal import Fleet, ScalingDecision, scale
from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.monitor_terms import WORKER
from merkatd.protocol.platform_messages import ClusterTerms, News

HORIZON_S: Final = 86_400.0
OLD: Final = 3.0
"""The age in periods above which a look is too old to change the number of workers."""
PORTION: Final = 50
"""The most workers that the head is ordered to forget in a period."""
MOST_GONE: Final = 1_000
"""The most released workers remembered for such orders."""
SILENT: Final = 2.0
"""The number of periods, or of the monitor's intervals, above which looks are a silence apart."""
_SEEN, _WAITING, _DRAINING, _GONE = "seen", "waiting", "draining", "gone"
_SEEN_S, _ASKED, _AT_S = "seen_s", "asked", "at_s"
_UNSEEN: Final = {"waiting": 0.0, "wanted": 0.0, "longest_s": 0.0}
"""A queue before the first look at it."""


class Elastic(Controller):
    """Controls the cluster of the head and the cluster of the workers."""

    head: ClusterHead | None = None
    """The head, which receives the orders to drain; created at the start."""

    async def on_start(self) -> None:
        """Read the template; give up at once if it is invalid."""
        try:
            self.wants = CrewTerms.of(self.assignment)
            self.batch = batch_of(self.assignment.parameters)
            if self.head is None:
                terms = self._terms(self.wants.head)
                reached = terms.monitor.parameters if terms.monitor else {}
                self.head = ClusterHead.of(self._hand, self.wants.head, reached)
        except ValueError as error:
            await self.give_up(str(error))

    async def on_progress(self, measured: Measured) -> None:
        """Record the state of the queue."""
        if measured.cluster == self.wants.head:
            self.memory[_SEEN] = dict(measured.values)
            self.memory[_SEEN_S] = measured.at_s

    async def on_price(self, news: News) -> None:
        """Bid for all VMs, and change the number of workers."""
        if not has_market(news):
            return
        seen = self.memory.get(_SEEN)
        if seen is None:
            await self._bid_unseen(news)
            return
        jobs = _told(seen, JOBS)
        crew = await self._crew(news, jobs)
        scaled = await self._scaled(news, crew, seen)
        closed = _told(seen, CLOSED).keys()
        # Looks have the time of the daemon's machine. `abs`: a clock that was set back must not
        # make an old look seem new.
        looked_s = float(self.memory.get(_SEEN_S, -math.inf))
        known = abs(news.at_s - looked_s) <= OLD * self.assignment.interval_s
        if known:
            waiting = int(seen["waiting"])
            await self._shrink(crew, closed, looked_s, scaled, waiting, news)
        if known and scaled.request:
            size = crew.size + scaled.request
            reason = f"{seen['waiting']:g} jobs wait"
            outcome = await self.set_size(self.wants.workers, size, reason=reason)
            if outcome.accepted:
                self.memory[_ASKED] = [news.period, size]
                self._cooldown().begin(self.wants.workers, news.at_s)
        await self.report(
            performance=seen["longest_s"] if self.wants.aim is QueueAim.WAIT else seen["running"],
            reference=self.wants.target_s if self.wants.aim is QueueAim.WAIT else None,
            text=f"{seen['waiting']:g} jobs wait, {seen['running']:g} run on {len(jobs)} workers",
        )

    async def _bid_unseen(self, news: News) -> None:
        """Bid before the first look: a head without an allocation never answers."""
        there = {vm.vm: None for vm in news.vms if vm.cluster == self.wants.workers}
        crew = Crew(there=there, size=max(self._size(news), len(there)))
        await self._scaled(news, crew, _UNSEEN)

    async def _crew(self, news: News, jobs: Mapping[int, int]) -> Crew:
        """Return the workers; release those that are lost."""
        # A controller that was killed may have released workers and only remember their drain.
        drained_now = {*map(int, self.memory.get(_DRAINING, ()))}
        ends = {vm.vm for vm in news.vms if vm.leaving} & drained_now
        gone = self._released(ends)
        workers = [
            vm
            for vm in news.vms
            if vm.cluster == self.wants.workers and vm.vm not in gone and not vm.leaving
        ]
        size = max(self._size(news), len(workers))
        looked_s = float(self.memory.get(_SEEN_S, news.at_s))
        missing = self._joining().missing(news, workers, jobs, looked_s)
        lost = missing.lost
        if lost:
            left = max(size - len(lost), self._terms(self.wants.workers).least)
            outcome = await self.set_size(
                self.wants.workers, left, victims=sorted(lost), reason="powered off or never joined"
            )
            if outcome.accepted:
                self._released(lost)
                size = left
        there = {worker.vm: jobs.get(worker.vm) for worker in workers if worker.vm not in lost}
        return Crew(
            there=there,
            size=max(size, len(there)),
            roomless=missing.roomless,
            away=missing.away,
        )

    def _size(self, news: News) -> int:
        """Return the intended number of workers; news made before the last order don't show it."""
        period, asked = self.memory.get(_ASKED, (news.period, 0))
        known = news.sizes.get(self.wants.workers, 0)
        return max(known, int(asked)) if news.period <= period + 1 else known

    def _cooldown(self) -> Cooldown:
        return Cooldown.of(self.memory, self.assignment.parameters)

    def _joining(self) -> Joining:
        monitor = self._terms(self.wants.head).monitor
        every_s = number(monitor.parameters if monitor else {}, "every_s")
        silence_s = SILENT * max(self.assignment.interval_s, every_s)
        return Joining(self.memory, self.assignment.parameters, silence_s)

    async def _scaled(self, news: News, crew: Crew, seen: Mapping[str, float]) -> ScalingDecision:
        """Apply Algorithm 4, set its bids, and return its result."""
        market, names = market_without(news), tuple(news.prices)
        spending = bid_max(
            available_credits(self.assignment, news),
            HORIZON_S if math.isinf(self.left_s()) else self.left_s(),
            self.assignment.interval_s,
            1,
        )
        heads = bidding(news.vms, self.wants.head)
        head = head_bids(self._terms(self.wants.head), max(len(heads), 1), market, news, spending)
        left = max(spending - sum(head), 0.0)
        waiting = int(seen["waiting"])
        jobs = _told(seen, JOBS)
        # A worker that an administrator closed takes no waiting job.
        others = _told(seen, CLOSED).keys() - {*map(int, self.memory.get(_DRAINING, ()))}
        useless = sum(jobs.get(vm) == 0 for vm in others) if waiting else 0
        load = QueueLoad(
            waiting=waiting,
            wanted=int(seen["wanted"]),
            longest_s=seen["longest_s"],
            busy=crew.size if seen is _UNSEEN else sum(map(bool, jobs.values())) + useless,
            slots=self.wants.slots,
        )
        terms, cooldown = self._terms(self.wants.workers), self._cooldown()
        may_grow = cooldown.may_grow(terms.name, news.at_s)
        # During the cooldown of shrinking no drain begins, and the others go on.
        begun = len(crew.there.keys() & {*map(int, self.memory.get(_DRAINING, ()))})
        fleet = Fleet(
            vms=crew.size,
            least=terms.least,
            most=terms.most,
            size=most(terms, names),
            growth=self.wants.growth if crew.settled and may_grow else 0,
            shrinkage=None if cooldown.may_shrink(terms.name, news.at_s) else begun,
            waiting=int(self.memory.get(_WAITING, 0)),
        )
        how = queue_performance(load, self.wants.aim, crew.size, self.wants.target_s)
        scaled = scale(
            fleet,
            how,
            left,
            market,
            wanted=max(load.useful, terms.least),
            patience=self.wants.patience,
        )
        self.memory[_WAITING] = scaled.waiting
        bids = {vm.vm: _each(names, head, len(heads), spending) for vm in heads}
        bids |= {
            vm.vm: dict(zip(names, scaled.bid, strict=True))
            for vm in bidding(news.vms, self.wants.workers)
        }
        if bids:
            await self.set_bids(bids, f"its spending limit is {spending:g} credits per period")
        return scaled

    async def _shrink(
        self,
        crew: Crew,
        closed: AbstractSet[int],
        looked_s: float,
        scaled: ScalingDecision,
        waiting: int,
        news: News,
    ) -> None:
        """Drain, restore and release workers; orders that fail are repeated in the next period."""
        since = self._since(news)
        joined = {vm for vm, jobs in crew.there.items() if jobs is not None}
        limit_s = self.wants.drain_limit_s
        plan = workers_to_release(
            crew.there,
            closed,
            crew.size - scaled.vms,
            since,
            news.at_s,
            limit_s,
            coming=crew.coming,
            roomless=crew.roomless,
            forced=scaled.forced,
            waiting=waiting,
            looked_s=looked_s,
            shown_s=news.at_s + self.assignment.interval_s,
        )
        # Store the plan before the order: a drain that is not remembered is never taken back.
        going = since | dict(plan.since_s)
        await self._plan(going)
        # Repeat the order until a look shows the drain.
        open_ = sorted((plan.since_s.keys() & joined) - closed)
        done = await self._tell(self.batch.drain, open_)
        # A worker that is away is restored once it is back: now the head would refuse.
        restored = sorted({*plan.restore} & joined)
        done = await self._tell(self.batch.restore, restored) and done
        if not done:
            return
        released: set[int] = set()
        if plan.release:
            outcome = await self.set_size(
                self.wants.workers, victims=plan.release, reason="no work, or too expensive"
            )
            if outcome.accepted:
                released = {*plan.release}
                self._cooldown().begin(self.wants.workers, news.at_s)
        over = released.union(restored)
        await self._plan({vm: at_s for vm, at_s in going.items() if vm not in over})
        present = {vm.vm for vm in news.vms if vm.cluster == self.wants.workers}
        self._released(released)
        await self._forget(present)

    def _since(self, news: News) -> dict[int, float]:
        """Return the start of each drain; workers missing in the news are kept for a while."""
        last_s = float(self.memory.get(_AT_S, news.at_s))
        self.memory[_AT_S] = news.at_s
        kept = {int(vm): began_s for vm, began_s in self.memory.get(_DRAINING, {}).items()}
        present = {vm.vm for vm in news.vms}
        known = {*map(int, self.memory.get(_GONE, ()))}
        since = by_clock(kept, last_s, news.at_s, 2 * self.assignment.interval_s)
        return {
            vm: began_s
            for vm, began_s in since.items()
            if vm not in known and (vm in present or news.at_s - began_s < HORIZON_S)
        }

    async def _plan(self, since_s: Mapping[int, float]) -> None:
        """Store which workers are being drained, and since when."""
        self.memory[_DRAINING] = {str(vm): began_s for vm, began_s in since_s.items()}
        await self.keep()

    def _released(self, more: AbstractSet[int] = frozenset()) -> AbstractSet[int]:
        """Record released workers; return all those that the head may still know."""
        known = dict.fromkeys([*map(int, self.memory.get(_GONE, ())), *sorted(more)])
        self.memory[_GONE] = list(known)
        return known.keys()

    async def _forget(self, present: AbstractSet[int]) -> None:
        """Order the head to forget released workers that are gone.

        A worker that is still ending would register again, so it must wait. Workers that the head
        does not forget are retried after all others, up to `MOST_GONE`.
        """
        released = self._released()
        ending = [vm for vm in released if vm in present]
        gone = [vm for vm in released if vm not in present]
        now, later = gone[:PORTION], gone[PORTION:]
        output = await self._say(self.batch.forget, now)
        left = None if output is None else left_of(output.out.decode(errors="replace"))
        refused = [vm for vm in now if left is None or self._name(vm) in left]
        self.memory[_GONE] = [*ending, *[*later, *refused][:MOST_GONE]]

    async def _tell(self, what: Any, vms: Sequence[int]) -> bool:
        """Send an order for these workers; return whether it succeeded or was not needed."""
        return not vms or await self._say(what, vms) is not None

    async def _say(self, what: Any, vms: Sequence[int]) -> CommandResult | None:
        """Send an order for these workers; return the head's answer, None if it failed."""
        if not vms or self.head is None:
            return None
        output = await self.head.say(what([self._name(vm) for vm in vms]))
        return output if output is not None and output.status == 0 else None

    def _name(self, vm: int) -> str:
        return str(self.assignment.parameters.get("worker", WORKER)).replace("{vm}", str(vm))

    def _terms(self, name: str) -> ClusterTerms:
        return next(cluster for cluster in self.assignment.clusters if cluster.name == name)


def _told(seen: Mapping[str, float], what: str) -> dict[int, int]:
    """Return the measurements with this prefix, by VM id."""
    return {
        int(name.removeprefix(what)): int(value)
        for name, value in seen.items()
        if name.startswith(what)
    }


def _each(
    names: Sequence[str], bids: Sequence[float], vms: int, spending: float
) -> dict[str, float]:
    """Return one VM's part of a bid for all VMs, scaled down to the spending limit."""
    part = min(1.0, spending / sum(bids)) if sum(bids) > 0 else 1.0
    return {name: bid * part / vms for name, bid in zip(names, bids, strict=True)}
