"""A batch system that grows and shrinks: a queue in virtual time, with a head that is told."""

import asyncio
import json
import random
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controllers.applications.elastic import Elastic
from controllers.monitors.naming import WORKER, WorkerNames
from controllers.monitors.queue import told
from controllers.monitors.queues.batch import Queue, Worker
from controllers.monitors.ssh import Said
from merkatd.bus.messages import Kept, Measured, Remember
from merkatd.platforms.ports import ClusterTerms, GiveUp, Outcome, SetBids, SetSize, VmNow
from tests.bus.rig import assignment, news

FULL = {"cpu": 100.0, "memory": 512.0}
HEAD = 1


def cluster(name: str, least: int, most: int) -> ClusterTerms:
    """Of VMs of one core."""
    return ClusterTerms(
        name=name, least=least, most=most, floor={"cpu": 10.0, "memory": 64.0}, ceiling=FULL
    )


class _KilledError(Exception):
    """The controller's process ends here."""


@dataclass
class Site:
    """Jobs of a core, each so many periods long; the head and the daemon in one."""

    price: float = 0.01
    balance: float = 1e6
    least: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    workers: dict[int, list[int]] = field(default_factory=dict)
    drained: set[int] = field(default_factory=set)
    lost: int = 0
    """Jobs that ran on a worker when it went."""
    bids: dict[int, Any] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    """What the controller had remembered."""
    heard: list[str] = field(default_factory=list)
    deaf: bool = False
    mumbles: bool = False
    """Whether the head does as it is told, and its answer is lost."""
    blind: bool = False
    """Whether the monitor hears nothing of the head."""
    period: int = 0
    off: set[int] = field(default_factory=set)
    """Workers that are gone out: nobody hears them."""
    mute: set[int] = field(default_factory=set)
    """Workers that run, and never join."""
    made_after: int = 0
    """Periods until a worker that was asked for is there, some up to two more;"""
    joins_after: int = 0
    """and until it has joined."""
    born: dict[int, int] = field(default_factory=dict)
    """By worker: in which period it was asked for."""
    undrained: list[int] = field(default_factory=list)
    """Workers that were ended though they took jobs, or were not there yet."""

    hidden: set[int] = field(default_factory=set)
    """Workers that no news name for now."""
    clock_off_s: float = 0.0
    """How far the clock of the daemon's machine is wrong."""
    ends_after: int = 0
    """Periods that an end takes;"""
    leaving: dict[int, int] = field(default_factory=dict)
    """and of those that end: in which period that was asked for."""
    dies: bool = False
    """Whether the controller is killed once a release was accepted."""

    def __post_init__(self) -> None:
        terms = (cluster("head", 1, 1), cluster("workers", self.least, 20))
        given = replace(
            assignment(), clusters=terms, parameters={"batch": "slurm"} | self.parameters
        )
        self.one = Elastic(given, self)
        self.one.head = self  # type: ignore[assignment] # it says what a head says
        asyncio.run(self.one.on_start())

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """As the daemon."""
        assert not action_id
        self.asked.append(body)
        if isinstance(body, Remember):
            if self.dies and self.leaving:
                raise _KilledError
            self.kept = json.loads(json.dumps(body.memory))
            return Kept()
        if isinstance(body, SetBids):
            self.bids = dict(body.bids)
        if isinstance(body, SetSize):
            count = len(self.workers) - len(body.victims) if body.count is None else body.count
            if not {*body.victims} <= self.workers.keys() - self.leaving.keys():
                return Outcome(accepted=False, why="no such VM")
            for vm in body.victims:
                if self.ends_after:
                    self.leaving[vm] = self.period
                else:
                    self._end(vm)
            count += len(self.leaving)
            for vm in sorted(self.workers)[count:]:
                self._end(vm)
            while len(self.workers) < count:
                new = max([HEAD, *self.workers, *self.born]) + 1
                self.workers[new] = []
                self.born[new] = self.period
        return Outcome(accepted=True)

    async def say(self, command: str) -> Said | None:
        """As the head."""
        if self.deaf:
            return None
        self.heard.append(command)
        vms = {
            vm
            for vm in range(100)
            if f"one-{vm}" in command.replace(",", " ").replace("=", " ").split()
        }
        if "state=drain" in command:
            self.drained |= vms
        if "state=resume" in command:
            self.drained -= vms
        return None if self.mumbles else Said(0, b"", b"")

    def begin_again(self) -> None:
        """The controller was killed: another knows what this one had kept."""
        given = replace(self.one.assignment, memory=self.kept)
        self.one = Elastic(given, self)
        self.one.head = self  # type: ignore[assignment] # it says what a head says
        asyncio.run(self.one.on_start())

    def _end(self, vm: int) -> None:
        self.lost += len(self.workers.pop(vm))
        if vm not in self.drained | self.off | self.mute:
            self.undrained.append(vm)

    def _made(self, vm: int, more: int = 0) -> bool:
        after = self.made_after + vm % 3 + more if self.made_after else more
        return vm not in self.born or self.period >= self.born[vm] + after

    def _joined(self, vm: int) -> bool:
        return vm not in self.off | self.mute and self._made(vm, self.joins_after)

    def pass_a_period(self) -> int:
        """Jobs run, the monitor looks, the controller decides; how many workers there are."""
        for vm, since in list(self.leaving.items()):
            if self.period >= since + self.ends_after:
                del self.leaving[vm]
                self._end(vm)
        for vm, jobs in self.workers.items():
            jobs[:] = [left - 1 for left in jobs if left > 1]
            if not jobs and self.waiting and vm not in self.drained and self._joined(vm):
                jobs.append(self.waiting.pop(0))
        queue = Queue(
            waiting=len(self.waiting),
            wanted=len(self.waiting),
            longest_s=60.0 * self.period if self.waiting else 0.0,
            running=sum(map(len, self.workers.values())),
            workers={
                f"one-{vm}": Worker(name=f"one-{vm}", jobs=len(jobs), drained=vm in self.drained)
                for vm, jobs in self.workers.items()
                if self._joined(vm)
            },
        )
        there = [vm for vm in self.workers if self._made(vm) and vm not in self.hidden]
        clusters = {HEAD: "head"} | dict.fromkeys(there, "workers")
        vms = tuple(
            VmNow(
                vm=vm,
                cluster=name,
                state="powered_off" if vm in self.off else "running",
                bid=self.bids.get(vm, {"cpu": 0.0, "memory": 0.0}),
                allocation=FULL,
                leaving=vm in self.leaving,
            )
            for vm, name in clusters.items()
        )
        self.period += 1
        at_s = 1_000.0 + 60.0 * self.period + self.clock_off_s
        if not self.blind:
            heard = Measured(cluster="head", at_s=at_s, values=told(queue, WorkerNames.of(WORKER)))
            asyncio.run(self.one.take(heard))
        latest = news(
            period=self.period,
            vms=vms,
            balance=self.balance,
            prices={"cpu": self.price, "memory": self.price / 10},
            sizes={"head": 1, "workers": len(self.workers) - len(self.leaving)},
        )
        latest = replace(latest, at_s=latest.at_s + self.clock_off_s)
        asyncio.run(self.one.take(latest))
        return len(self.workers)


def test_it_grows_with_care_and_shrinks_when_there_is_nothing_to_do() -> None:
    """Two at a time, none while some are coming; at the end none is left and no job was lost."""
    site = Site(waiting=[5] * 30)
    sizes = [site.pass_a_period() for _ in range(60)]
    assert max(sizes) > 6
    assert all(later - before <= 2 for before, later in pairwise(sizes))
    assert site.waiting == []
    assert sizes[-1] == 0
    assert site.lost == 0
    assert any("delete nodename" in one for one in site.heard)


def test_the_price_takes_workers_away_but_not_their_jobs() -> None:
    """Those are drained first, on the same budget; none is asked for right after."""
    site = Site(waiting=[8] * 200, balance=20_000.0)
    for _ in range(20):
        many = site.pass_a_period()
    site.price = 0.05
    sizes, bids = [], []
    for _ in range(30):
        sizes.append(site.pass_a_period())
        bids.append(sum(sum(bid.values()) for bid in site.bids.values()))
    assert sizes[-1] < many
    assert site.drained
    assert site.lost == 0
    assert max(bids) <= 20_000.0 / 1440 * (1 + 1e-6)


def test_the_least_wait_is_no_reason_to_grow_before_anybody_waits_too_long() -> None:
    """The other aim grows at once."""
    patient = Site(waiting=[50] * 4, parameters={"aim": "wait", "target_s": 600.0}, least=1)
    eager = Site(waiting=[50] * 4, parameters={"aim": "throughput"}, least=1)
    for site in (patient, eager):
        site.workers[2] = []
        for _ in range(6):
            site.pass_a_period()
    assert len(patient.workers) == 1
    assert len(eager.workers) > 1


def test_nobody_is_released_whom_the_head_was_not_told_of() -> None:
    """It is told as soon as it hears again."""
    site = Site(waiting=[3])
    site.workers = {2: [], 3: [], 4: []}
    site.deaf = True
    assert [site.pass_a_period() for _ in range(5)][-1] == 3
    site.deaf = False
    for _ in range(8):
        site.pass_a_period()
    assert site.workers == {}


def test_workers_that_are_of_no_use_make_room_for_others() -> None:
    """One that went out, and one that never joined: they would keep it from growing for ever."""
    site = Site(waiting=[5] * 30, parameters={"off_limit_s": 60.0, "boot_limit_s": 240.0})
    site.workers = {2: [], 3: [], 4: []}
    site.off, site.mute = {2}, {3}
    for _ in range(3):
        site.pass_a_period()
    assert set(site.workers) == {3, 4}
    for _ in range(57):
        site.pass_a_period()
    assert site.waiting == []
    assert site.workers == {}
    assert site.lost == 0
    deleted = " ".join(one for one in site.heard if "delete" in one)
    assert {"one-2", "one-3"} <= {*deleted.replace("=", " ").replace(";", " ").split()}


def test_one_that_is_about_to_join_is_not_taken_for_idle() -> None:
    """It may have been given a job since the last look: it goes when that has ended."""
    site = Site()
    site.workers = {2: [9]}
    site.mute = {2}
    for _ in range(3):
        site.pass_a_period()
    assert site.workers == {2: [6]}
    site.mute = set()
    for _ in range(15):
        site.pass_a_period()
    assert site.workers == {}
    assert site.lost == 0


def test_a_template_that_can_not_be_is_given_up_at_once() -> None:
    """With what would be right."""
    for parameters, why in (
        ({"workers": "nobody"}, "there are head, workers"),
        ({"batch": "maui"}, "slurm, gridengine"),
    ):
        site = Site(parameters=parameters)
        (body,) = site.asked
        assert isinstance(body, GiveUp)
        assert why in body.reason


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 4),
    st.integers(0, 3),
    st.lists(st.lists(st.integers(1, 4), max_size=8), min_size=20, max_size=40),
)
@example(3, 0, [[3] * 2, *[[]] * 5, [1] * 8])
@example(2, 1, [[4] * 2, *[[]] * 6, [1] * 8])
def test_a_worker_that_is_being_made_counts(
    made_after: int, joins_after: int, arrivals: list[list[int]]
) -> None:
    """The controller ends no worker that it has just asked for, however long making it takes."""
    site = Site(made_after=made_after, joins_after=joins_after)
    sizes = [0]
    for jobs in (*arrivals, *[[]] * 80):
        site.waiting += jobs
        sizes.append(site.pass_a_period())
    assert all(later - before <= 2 for before, later in pairwise(sizes))
    assert site.waiting == []
    assert (site.undrained, site.lost, sizes[-1]) == ([], 0, 0)


def test_prices_that_move_while_workers_are_made_cost_no_job() -> None:
    """The controller asks for workers, finds them too dear, and wants them again."""
    site = Site(waiting=[6] * 300, balance=20_000.0, made_after=2, joins_after=1)
    for period in range(120):
        site.price = 0.05 if period % 20 >= 12 else 0.01
        site.pass_a_period()
    assert site.drained
    assert (site.undrained, site.lost) == ([], 0)


def test_a_monitor_that_hears_nothing_does_not_make_workers_absent() -> None:
    """A worker that joined since the last look runs jobs: it stays beyond the boot limit."""
    site = Site(waiting=[5] * 60, parameters={"boot_limit_s": 180.0})
    for _ in range(2):
        site.pass_a_period()
    site.blind = True
    for _ in range(12):
        site.pass_a_period()
    assert (site.undrained, site.lost) == ([], 0)


@pytest.mark.parametrize("seed", [14, 33, 61, 75])
def test_looks_that_are_missed_cost_no_job(seed: int) -> None:
    """A look from before a worker was drained again says nothing of the jobs that it has now."""
    drawn = random.Random(seed)  # noqa: S311 - a test
    waiting = [drawn.randint(6, 30) for _ in range(300)]
    site = Site(waiting=waiting, balance=20_000.0, parameters={"drain_limit_s": 1e9})
    for period in range(100):
        if period > 12 and drawn.random() < 0.4:
            site.price = drawn.choice([0.01, 0.05, 0.03])
        if period % 3 == 0:
            site.blind = period > 12 and drawn.random() < 0.5
        if drawn.random() < 0.3:
            site.waiting = []
        elif drawn.random() < 0.3:
            site.waiting += [drawn.randint(6, 30) for _ in range(40)]
        site.pass_a_period()
        assert site.lost == 0


def test_without_looks_for_long_there_are_neither_more_workers_nor_fewer() -> None:
    """Nobody knows how many jobs wait, or run."""
    site = Site(waiting=[50] * 300, balance=20_000.0, parameters={"drain_limit_s": 180.0})
    for _ in range(6):
        site.pass_a_period()
    site.blind = True
    sizes = [site.pass_a_period() for _ in range(10)]
    assert len(set(sizes[3:])) == 1, sizes
    site.price = 1.0
    assert {site.pass_a_period() for _ in range(10)} == {sizes[-1]}
    assert site.lost == 0
    site.blind = False
    for _ in range(3):
        site.pass_a_period()
    assert site.drained


def test_a_job_that_starts_just_before_the_drain_is_not_lost_while_another_worker_is_idle() -> None:
    """Between the look and the drain a job comes to the worker that is chosen."""
    site = Site(parameters={"drain_limit_s": 120.0}, least=1)
    site.workers = {2: [], 3: []}
    site.blind = True
    site.pass_a_period()
    site.blind = False
    look = site.say

    async def late(command: str) -> Said | None:
        if "state=drain" in command and not any(site.workers.values()):
            for vm, jobs in site.workers.items():
                if f"one-{vm}" in command:
                    jobs.append(20)
        return await look(command)

    site.say = late  # type: ignore[method-assign]
    for _ in range(15):
        site.pass_a_period()
    assert len(site.workers) == 1
    assert site.lost == 0


@pytest.mark.parametrize("fate", ["killed", "answer lost"])
def test_a_drain_whose_answer_is_lost_is_taken_back_when_there_is_work(fate: str) -> None:
    """No worker stays closed for ever, and the queue does not stop."""
    site = Site(least=1)
    site.workers = {2: [], 3: []}
    site.mumbles = True
    site.pass_a_period()
    assert site.drained == {3}
    if fate == "killed":
        site.begin_again()
    site.mumbles = False
    site.waiting = [4] * 12
    for _ in range(4):
        site.pass_a_period()
    assert site.drained.isdisjoint(site.workers)
    assert {2, 3} <= site.workers.keys()
    assert site.lost == 0


def test_a_worker_that_somebody_else_closed_keeps_no_job_waiting() -> None:
    """Another is asked for; the closed one is nobody's to open, and goes when nothing waits."""
    site = Site(least=1)
    site.workers = {2: []}
    site.drained = {2}
    site.waiting = [3]
    for _ in range(14):
        site.pass_a_period()
    assert site.waiting == []
    assert not any("state=resume" in one for one in site.heard)
    assert 2 not in site.workers


def test_the_head_has_a_bid_before_anything_was_seen_of_it() -> None:
    """After a failure its VMs bid nothing: a head without a share never answers a look."""
    site = Site(least=1)
    site.workers = {2: []}
    site.blind = True
    site.pass_a_period()
    assert all(sum(site.bids[vm].values()) > 0 for vm in (HEAD, 2))
    assert set(site.workers) == {2}


@pytest.mark.parametrize("away", ["mute", "hidden"])
def test_a_drain_is_taken_back_though_the_worker_is_away_for_a_moment(away: str) -> None:
    """The head does not hear it for one look, or the news of one period leave it out."""
    site = Site(least=1)
    site.workers = {2: [], 3: []}
    site.pass_a_period()
    (drained,) = site.drained
    site.waiting = [40] * 30
    getattr(site, away).add(drained)
    site.pass_a_period()
    getattr(site, away).clear()
    for _ in range(3):
        site.pass_a_period()
    assert drained not in site.drained
    assert site.lost == 0


@pytest.mark.parametrize("off_s", [-86_400.0, -3_600.0, 3_600.0])
def test_a_clock_that_is_set_does_not_keep_an_idle_worker(off_s: float) -> None:
    """Nobody pays an hour for a worker that is empty."""
    site = Site(least=1)
    site.workers = {2: [], 3: []}
    site.pass_a_period()
    assert site.drained
    site.clock_off_s = off_s
    for _ in range(4):
        site.pass_a_period()
    assert len(site.workers) == 1


def test_a_clock_that_is_set_ahead_ends_no_job() -> None:
    """A drain that is a period old is not late by an hour."""
    site = Site(waiting=[8] * 200, balance=20_000.0, parameters={"drain_limit_s": 600.0})
    for _ in range(20):
        site.pass_a_period()
    site.price = 0.05
    for _ in range(30):
        site.pass_a_period()
        if site.drained & site.workers.keys():
            break
    assert any(site.workers[vm] for vm in site.drained & site.workers.keys())
    site.clock_off_s = 3_600.0
    for _ in range(6):
        site.pass_a_period()
    assert site.lost == 0


def test_one_that_was_released_by_a_controller_that_died_is_not_opened_again() -> None:
    """The next controller knows of no release; the head is told to forget the worker."""
    site = Site(least=1, ends_after=3)
    site.workers = {2: [], 3: []}
    site.dies = True
    site.pass_a_period()
    with pytest.raises(_KilledError):
        site.pass_a_period()
    (leaves,) = site.leaving
    site.dies = False
    site.begin_again()
    site.waiting = [9] * 8
    for _ in range(8):
        site.pass_a_period()
    assert not any("state=resume" in one and f"one-{leaves}" in one for one in site.heard)
    assert any("delete nodename" in one and f"one-{leaves}" in one for one in site.heard)
    assert site.lost == 0
