"""A batch system whose cluster of workers grows and shrinks with its queue and the price.

Algorithm 4 with care: few workers are asked for at once, none right after some had to be released
because they became too dear, none while some are still coming in good time; and a worker is
drained before it is released, so that no job is lost. The head is always paid for first.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from controllers.applications.crew import Crew, Wants
from controllers.applications.joining import Joining
from controllers.applications.market_position import bidding, market_without, most, purse
from controllers.controller import Controller
from controllers.measurements import CLOSED, JOBS
from controllers.monitors.batch_systems.batch_system import left_of
from controllers.monitors.queue_monitor import Head
from controllers.monitors.queues.systems import batch_of
from controllers.monitors.ssh_pool import Said
from merkatd.base.parameter_bounds import number
from merkatd.policies.batch_queue import (
    Aim,
    QueueLoad,
    by_clock,
    queue_performance,
    workers_to_release,
)
from merkatd.policies.deadline import bid_max
from merkatd.policies.horizontal import Fleet, Scaled, bids_for, scale
from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.monitor_terms import WORKER
from merkatd.protocol.platform_messages import ClusterTerms, News

HORIZON_S: Final = 86_400.0
OLD: Final = 3.0
"""A look that is older than so many periods says too little to have more workers, or fewer."""
PORTION: Final = 50
"""So many workers the head is told to forget in a period,"""
MOST_GONE: Final = 1_000
"""and of so many it is remembered that they are to be forgotten."""
SILENT: Final = 2.0
"""More periods than so many, or rests of the monitor, between two looks are a silence."""
_SEEN, _WAITING, _DRAINING, _GONE = "seen", "waiting", "draining", "gone"
_SEEN_S, _ASKED, _AT_S = "seen_s", "asked", "at_s"


_UNSEEN: Final = {"waiting": 0.0, "wanted": 0.0, "longest_s": 0.0}
"""A queue before the first look at it."""


class Elastic(Controller):
    """Looks after the cluster of the head and that of the workers."""

    head: Head | None = None
    """Where drains are told; made at the start."""

    async def on_start(self) -> None:
        """Who can't be understood is told at once."""
        try:
            self.wants = Wants.of(self.assignment)
            self.batch = batch_of(self.assignment.parameters)
            if self.head is None:
                terms = self._terms(self.wants.head)
                reached = terms.monitor.parameters if terms.monitor else {}
                self.head = Head.of(self._hand, self.wants.head, reached)
        except ValueError as error:
            await self.give_up(str(error))

    async def on_progress(self, measured: Measured) -> None:
        """Remember how the queue is."""
        if measured.cluster == self.wants.head:
            self.memory[_SEEN] = dict(measured.values)
            self.memory[_SEEN_S] = measured.at_s

    async def on_price(self, news: News) -> None:
        """Bid for all, and have more or fewer workers."""
        seen = self.memory.get(_SEEN)
        if seen is None:
            await self._bid_unseen(news)
            return
        jobs = _told(seen, JOBS)
        crew = await self._crew(news, jobs)
        scaled = await self._scaled(news, crew, seen)
        closed = _told(seen, CLOSED).keys()
        # By the clock of the daemon's machine; one that was set back makes no look younger.
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
        await self.report(
            performance=seen["longest_s"] if self.wants.aim is Aim.WAIT else seen["running"],
            reference=self.wants.target_s if self.wants.aim is Aim.WAIT else None,
            text=f"{seen['waiting']:g} jobs wait, {seen['running']:g} run on {len(jobs)} workers",
        )

    async def _bid_unseen(self, news: News) -> None:
        """Bid before the first look: a head without a share never answers one."""
        there = {one.vm: None for one in news.vms if one.cluster == self.wants.workers}
        crew = Crew(there=there, size=max(self._size(news), len(there)))
        await self._scaled(news, crew, _UNSEEN)

    async def _crew(self, news: News, jobs: Mapping[int, int]) -> Crew:
        """The workers, without those that went out or never joined, which are released."""
        # A process that was killed may have released some of which it remembers no more than this.
        drained_now = {*map(int, self.memory.get(_DRAINING, ()))}
        ends = {one.vm for one in news.vms if one.leaving} & drained_now
        gone = self._released(ends)
        workers = [
            one
            for one in news.vms
            if one.cluster == self.wants.workers and one.vm not in gone and not one.leaving
        ]
        size = max(self._size(news), len(workers))
        looked_s = float(self.memory.get(_SEEN_S, news.at_s))
        missing = self._joining().missing(news, workers, jobs, looked_s)
        lost = missing.lost
        if lost:
            left = max(size - len(lost), self._terms(self.wants.workers).least)
            outcome = await self.set_size(
                self.wants.workers, left, victims=sorted(lost), reason="off, or never joined"
            )
            if outcome.accepted:
                self._released(lost)
                size = left
        there = {one.vm: jobs.get(one.vm) for one in workers if one.vm not in lost}
        return Crew(
            there=there,
            size=max(size, len(there)),
            roomless=missing.roomless,
            away=missing.away,
        )

    def _size(self, news: News) -> int:
        """How many there are to be; news that were made before the last order do not know it."""
        period, asked = self.memory.get(_ASKED, (news.period, 0))
        known = news.sizes.get(self.wants.workers, 0)
        return max(known, int(asked)) if news.period <= period + 1 else known

    def _joining(self) -> Joining:
        monitor = self._terms(self.wants.head).monitor
        every_s = number(monitor.parameters if monitor else {}, "every_s")
        silence_s = SILENT * max(self.assignment.interval_s, every_s)
        return Joining(self.memory, self.assignment.parameters, silence_s)

    async def _scaled(
        self,
        news: News,
        crew: Crew,
        seen: Mapping[str, float],
    ) -> Scaled:
        """Algorithm 4, and the bids that come with it."""
        market, names = market_without(news), tuple(news.prices)
        spending = bid_max(
            purse(self.assignment, news),
            HORIZON_S if math.isinf(self.left_s()) else self.left_s(),
            self.assignment.interval_s,
            1,
        )
        heads = bidding(news.vms, self.wants.head)
        head = bids_for(max(len(heads), 1), most(self._terms(self.wants.head), names), market)
        left = max(spending - sum(head), 0.0)
        waiting = int(seen["waiting"])
        jobs = _told(seen, JOBS)
        # A worker that somebody else closed does no waiting job.
        others = _told(seen, CLOSED).keys() - {*map(int, self.memory.get(_DRAINING, ()))}
        useless = sum(jobs.get(vm) == 0 for vm in others) if waiting else 0
        load = QueueLoad(
            waiting=waiting,
            wanted=int(seen["wanted"]),
            longest_s=seen["longest_s"],
            busy=crew.size if seen is _UNSEEN else sum(map(bool, jobs.values())) + useless,
            slots=self.wants.slots,
        )
        terms = self._terms(self.wants.workers)
        fleet = Fleet(
            vms=crew.size,
            least=terms.least,
            most=terms.most,
            size=most(terms, names),
            growth=self.wants.growth if crew.settled else 0,
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
        bids = {one.vm: _each(names, head, len(heads), spending) for one in heads}
        bids |= {
            one.vm: dict(zip(names, scaled.bid, strict=True))
            for one in bidding(news.vms, self.wants.workers)
        }
        if bids:
            await self.set_bids(bids, f"{spending:g} credits a period can be spent")
        return scaled

    async def _shrink(
        self,
        crew: Crew,
        closed: AbstractSet[int],
        looked_s: float,
        scaled: Scaled,
        waiting: int,
        news: News,
    ) -> None:
        """Drain, take that back, release; what the head was not told is said again next time."""
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
        # Remembered before the head is told: a drain that nobody remembers is never taken back.
        going = since | dict(plan.since_s)
        await self._plan(going)
        # Again, until it is seen.
        open_ = sorted((plan.since_s.keys() & joined) - closed)
        told = await self._tell(self.batch.drain, open_)
        # One that is away is told once it is back: now the head would refuse.
        restored = sorted({*plan.restore} & joined)
        told = await self._tell(self.batch.restore, restored) and told
        if not told:
            return
        released: set[int] = set()
        if plan.release:
            outcome = await self.set_size(
                self.wants.workers, victims=plan.release, reason="no work, or too dear"
            )
            released = {*plan.release} if outcome.accepted else set()
        over = released.union(restored)
        await self._plan({vm: at_s for vm, at_s in going.items() if vm not in over})
        present = {one.vm for one in news.vms if one.cluster == self.wants.workers}
        self._released(released)
        await self._forget(present)

    def _since(self, news: News) -> dict[int, float]:
        """When the drains began. One that no news name for now may be named again."""
        last_s = float(self.memory.get(_AT_S, news.at_s))
        self.memory[_AT_S] = news.at_s
        kept = {int(vm): began_s for vm, began_s in self.memory.get(_DRAINING, {}).items()}
        present = {one.vm for one in news.vms}
        known = {*map(int, self.memory.get(_GONE, ()))}
        since = by_clock(kept, last_s, news.at_s, 2 * self.assignment.interval_s)
        return {
            vm: began_s
            for vm, began_s in since.items()
            if vm not in known and (vm in present or news.at_s - began_s < HORIZON_S)
        }

    async def _plan(self, since_s: Mapping[int, float]) -> None:
        """Remember which workers are being drained, and since when."""
        self.memory[_DRAINING] = {str(vm): began_s for vm, began_s in since_s.items()}
        await self.keep()

    def _released(self, more: AbstractSet[int] = frozenset()) -> AbstractSet[int]:
        """Remember some more that were released; all those that the head may still know."""
        known = dict.fromkeys([*map(int, self.memory.get(_GONE, ())), *sorted(more)])
        self.memory[_GONE] = list(known)
        return known.keys()

    async def _forget(self, present: AbstractSet[int]) -> None:
        """Those released that are gone: one that still ends would put itself on the list again.

        What the head does not forget is told again after all others, and no more where these are
        too many.
        """
        released = self._released()
        ending = [vm for vm in released if vm in present]
        gone = [vm for vm in released if vm not in present]
        now, later = gone[:PORTION], gone[PORTION:]
        said = await self._say(self.batch.forget, now)
        left = None if said is None else left_of(said.out.decode(errors="replace"))
        refused = [vm for vm in now if left is None or self._name(vm) in left]
        self.memory[_GONE] = [*ending, *[*later, *refused][:MOST_GONE]]

    async def _tell(self, what: Any, vms: Sequence[int]) -> bool:
        """Whether the head was told, or there was nothing to tell."""
        return not vms or await self._say(what, vms) is not None

    async def _say(self, what: Any, vms: Sequence[int]) -> Said | None:
        """What the head answers to a command for these, None where that came to nothing."""
        if not vms or self.head is None:
            return None
        said = await self.head.say(what([self._name(vm) for vm in vms]))
        return said if said is not None and said.status == 0 else None

    def _name(self, vm: int) -> str:
        return str(self.assignment.parameters.get("worker", WORKER)).replace("{vm}", str(vm))

    def _terms(self, name: str) -> ClusterTerms:
        return next(one for one in self.assignment.clusters if one.name == name)


def _told(seen: Mapping[str, float], what: str) -> dict[int, int]:
    """By VM, of the workers that the batch system has."""
    return {
        int(name.removeprefix(what)): int(value)
        for name, value in seen.items()
        if name.startswith(what)
    }


def _each(
    names: Sequence[str], whole: Sequence[float], vms: int, spending: float
) -> dict[str, float]:
    """One VM's part of a bid for all of them, no more than there is."""
    part = min(1.0, spending / sum(whole)) if sum(whole) > 0 else 1.0
    return {name: bid * part / vms for name, bid in zip(names, whole, strict=True)}
