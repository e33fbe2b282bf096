"""A batch system whose cluster of workers grows and shrinks with its queue and the price.

Algorithm 4 with care: few workers are asked for at once, none right after some had to be released
because they became too dear, none while some are still coming; and a worker is drained before
it is released, so that no job is lost. The head is always paid for first.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from controllers.applications.replacing import LIMIT_S, OFF, OFF_S, overdue
from controllers.applications.trading import bidding, market_without, most, purse
from controllers.controller import Controller
from controllers.monitors.head import Head, batch_of
from controllers.monitors.queue import CLOSED, JOBS, WORKER
from controllers.policies.bound import bids_for
from controllers.policies.deadline import bid_max
from controllers.policies.draining import drained
from controllers.policies.horizontal import Fleet, Scaled, scale
from controllers.policies.queueing import Aim, Load, judged
from merkatd.bus.messages import Measured
from merkatd.platforms.ports import Assignment, ClusterTerms, News, VmNow

HORIZON_S: Final = 86_400.0
_SEEN, _WAITING, _DRAINING, _GONE = "seen", "waiting", "draining", "gone"
_OFF, _ABSENT = "off", "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What the template says."""

    head: str
    workers: str
    aim: Aim
    target_s: float
    """How long a job may wait, for the aim `wait`."""
    slots: int
    growth: int
    patience: int
    drain_limit_s: float

    @classmethod
    def of(cls, assignment: Assignment) -> "Wants":
        """ValueError where it says something that can't be."""
        said = assignment.parameters
        names = [one.name for one in assignment.clusters]
        found = cls(
            head=str(said.get("head", "head")),
            workers=str(said.get("workers", "workers")),
            aim=Aim(said.get("aim", Aim.THROUGHPUT)),
            target_s=float(said.get("target_s", 60.0)),
            slots=int(said.get("slots", 1)),
            growth=int(said.get("growth", 2)),
            patience=int(said.get("patience", 3)),
            drain_limit_s=float(said.get("drain_limit_s", 600.0)),
        )
        for name in (found.head, found.workers):
            if name not in names:
                raise ValueError(f"there is no cluster {name!r}; there are {', '.join(names)}")
        return found


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

    async def on_price(self, news: News) -> None:
        """Bid for all, and have more or fewer workers."""
        seen = self.memory.get(_SEEN)
        if seen is None:
            return
        jobs = _told(seen, JOBS)
        workers = await self._without_lost(news, jobs)
        scaled = await self._scaled(news, workers, seen, jobs)
        surplus = len(workers) - scaled.vms
        closed = _told(seen, CLOSED).keys()
        await self._shrink(jobs, closed, workers, surplus, news)
        if scaled.request:
            size = len(workers) + scaled.request
            reason = f"{seen['waiting']:g} jobs wait"
            await self.set_size(self.wants.workers, size, reason=reason)
        await self.report(
            performance=seen["longest_s"] if self.wants.aim is Aim.WAIT else seen["running"],
            reference=self.wants.target_s if self.wants.aim is Aim.WAIT else None,
            text=f"{seen['waiting']:g} jobs wait, {seen['running']:g} run on {len(jobs)} workers",
        )

    async def _without_lost(self, news: News, jobs: Mapping[int, int]) -> list[VmNow]:
        """The workers, but for those that went out or never joined, which are released."""
        workers = [one for one in news.vms if one.cluster == self.wants.workers]
        off = [one.vm for one in workers if one.state == OFF]
        absent = [one.vm for one in workers if one.state == "running" and one.vm not in jobs]
        lost: set[int] = set()
        for key, missed, name, usual_s in (
            (_OFF, off, "off_limit_s", OFF_S),
            (_ABSENT, absent, "boot_limit_s", LIMIT_S),
        ):
            limit_s = float(self.assignment.parameters.get(name, usual_s))
            since = self.memory.get(key, {})
            self.memory[key], late = overdue(missed, since, news.at_s, limit_s)
            lost |= {*late}
        if lost:
            victims = sorted(lost)
            await self.set_size(self.wants.workers, victims=victims, reason="off, or never joined")
            self.memory[_GONE] = sorted({*map(int, self.memory.get(_GONE, ())), *lost})
        return [one for one in workers if one.vm not in lost]

    async def _scaled(
        self,
        news: News,
        workers: Sequence[VmNow],
        seen: Mapping[str, float],
        jobs: Mapping[int, int],
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
        load = Load(
            waiting=int(seen["waiting"]),
            wanted=int(seen["wanted"]),
            longest_s=seen["longest_s"],
            busy=sum(one > 0 for one in jobs.values()),
            slots=self.wants.slots,
        )
        terms = self._terms(self.wants.workers)
        coming = len(workers) - len(jobs.keys() & {one.vm for one in workers})
        fleet = Fleet(
            vms=len(workers),
            least=terms.least,
            most=terms.most,
            size=most(terms, names),
            growth=0 if coming else self.wants.growth,
            waiting=int(self.memory.get(_WAITING, 0)),
        )
        how = judged(load, self.wants.aim, len(workers), self.wants.target_s)
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
        jobs: Mapping[int, int],
        closed: AbstractSet[int],
        workers: Sequence[VmNow],
        surplus: int,
        news: News,
    ) -> None:
        """Drain, take that back, release; what the head was not told is said again next time."""
        there = {one.vm: jobs.get(one.vm, 0) for one in workers}
        since = {int(vm): began_s for vm, began_s in self.memory.get(_DRAINING, {}).items()}
        plan = drained(there, closed, surplus, since, news.at_s, self.wants.drain_limit_s)
        # Again, until it is seen: one may have joined only after it was to leave.
        open_ = sorted((plan.since_s.keys() & jobs.keys()) - closed)
        told = await self._tell(self.batch.drain, open_)
        # One that never joined has nothing to be restored, and the head would refuse.
        restored = sorted({*plan.restore} & jobs.keys())
        told = await self._tell(self.batch.restore, restored) and told
        if not told:
            return
        self.memory[_DRAINING] = {str(vm): began_s for vm, began_s in plan.since_s.items()}
        if plan.release:
            await self.set_size(
                self.wants.workers, victims=plan.release, reason="no work, or too dear"
            )
        present = {one.vm for one in news.vms if one.cluster == self.wants.workers}
        await self._forget({*map(int, self.memory.get(_GONE, ())), *plan.release}, present)

    async def _forget(self, released: set[int], present: AbstractSet[int]) -> None:
        """Those released that are gone: one that still ends would put itself on the list again."""
        gone = sorted(released - present)
        left = (
            released
            if gone and not await self._tell(self.batch.forget, gone)
            else (released & present)
        )
        self.memory[_GONE] = sorted(left)

    async def _tell(self, what: Any, vms: Sequence[int]) -> bool:
        """Whether the head was told, or there was nothing to tell."""
        if not vms or self.head is None:
            return not vms
        name = str(self.assignment.parameters.get("worker", WORKER))
        said = await self.head.say(what([name.replace("{vm}", str(vm)) for vm in vms]))
        return said is not None and said.status == 0

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
