"""A batch system in virtual time: its queue, its head that is told, and the daemon."""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from controllers.applications.elastic import Elastic
from controllers.monitors.batch_systems.batch_system import LEFT, Queue, Worker
from controllers.monitors.queue_monitor import queue_values
from controllers.monitors.ssh_pool import CommandResult
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.monitor_terms import WORKER, WorkerNames
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    ClusterTerms,
    MonitorTerms,
    SetBids,
    SetSize,
    VmNow,
)
from tests.bus.rig import assignment, news
from tests.controllers.coroutines import finish

FULL = {"cpu": 100.0, "memory": 512.0}
NOTHING = dict.fromkeys(FULL, 0.0)
HEAD = 1


def cluster(name: str, least: int, most: int) -> ClusterTerms:
    """Of VMs of one core."""
    return ClusterTerms(
        name=name, least=least, most=most, floor={"cpu": 10.0, "memory": 64.0}, ceiling=FULL
    )


class KilledError(Exception):
    """The controller's process ends here."""


@dataclass
class Site:
    """Jobs of a core, each so many periods long; the head and the daemon in one."""

    price: float = 0.01
    balance: float = 1e6
    every_s: float = 20.0
    """How long the monitor rests between two looks."""
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
    unseen: set[int] = field(default_factory=set)
    """Workers of which OpenNebula hears nothing: their jobs run on."""
    mute: set[int] = field(default_factory=set)
    """Workers that run, and never join."""
    states: dict[int, str] = field(default_factory=dict)
    """What the news say of workers that do not run."""
    roomless: set[int] = field(default_factory=set)
    """Workers for which no host has room."""
    placed: set[int] = field(default_factory=set)
    """The other workers."""
    room: int | None = None
    """For how many workers there is room; None: for all."""
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
    forgotten: set[int] = field(default_factory=set)
    """Workers that the head has no more,"""
    sticky: set[int] = field(default_factory=set)
    """and those that it won't forget."""
    dies: bool = False
    """Whether the controller is killed once a release was accepted."""

    def __post_init__(self) -> None:
        looks = MonitorTerms(kind="queue", parameters={"every_s": self.every_s})
        head = replace(cluster("head", 1, 1), monitor=looks)
        terms = (head, cluster("workers", self.least, 20))
        given = replace(
            assignment(), clusters=terms, parameters={"batch": "slurm"} | self.parameters
        )
        self.one = Elastic(given, self)
        self.one.head = self  # type: ignore[assignment] # it says what a head says
        finish(self.one.on_start())

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """As the daemon."""
        assert not action_id
        self.asked.append(body)
        if isinstance(body, Remember):
            if self.dies and self.leaving:
                raise KilledError
            self.kept = json.loads(json.dumps(body.memory))
            return Stored()
        if isinstance(body, SetBids):
            self.bids = dict(body.bids)
        if isinstance(body, SetSize):
            count = len(self.workers) - len(body.victims) if body.count is None else body.count
            if not {*body.victims} <= self.workers.keys() - self.leaving.keys():
                return ActionOutcome(accepted=False, why="no such VM")
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
        return ActionOutcome(accepted=True)

    async def say(self, command: str) -> CommandResult | None:
        """As the head."""
        if self.deaf:
            return None
        self.heard.append(command)
        vms = {int(vm) for vm in re.findall(r"\bone-(\d+)\b", command)}
        if "state=drain" in command:
            self.drained |= vms
        if "state=resume" in command:
            self.drained -= vms
        named = {int(vm) for vm in re.findall(r"delete nodename=one-(\d+)", command)}
        self.forgotten |= named - self.sticky
        left = "".join(f"one-{vm}\n" for vm in sorted(named & self.sticky))
        return None if self.mumbles else CommandResult(0, f"{LEFT}\n{left}".encode(), b"")

    def begin_again(self) -> None:
        """The controller was killed: another knows what this one had kept."""
        given = replace(self.one.assignment, memory=self.kept)
        self.one = Elastic(given, self)
        self.one.head = self  # type: ignore[assignment] # it says what a head says
        finish(self.one.on_start())

    def _end(self, vm: int) -> None:
        self.lost += len(self.workers.pop(vm))
        if vm not in self.drained | self.off | self.mute | self.roomless:
            self.undrained.append(vm)

    def _state(self, vm: int) -> str:
        if vm in self.roomless:
            return "pending"
        if vm in self.unseen:
            return "unknown"
        return "powered_off" if vm in self.off else self.states.get(vm, "running")

    def _place(self) -> None:
        """One that has a host keeps it; of the others the oldest have what room there is."""
        self.placed &= self.workers.keys()
        left = len(self.workers) if self.room is None else self.room - len(self.placed)
        wait = sorted(self.workers.keys() - self.placed)
        self.placed |= {*wait[: max(left, 0)]}
        self.roomless = self.workers.keys() - self.placed

    def _made(self, vm: int, more: int = 0) -> bool:
        after = self.made_after + vm % 3 + more if self.made_after else more
        return vm not in self.born or self.period >= self.born[vm] + after

    def _joined(self, vm: int) -> bool:
        there = vm not in self.off | self.mute | self.roomless
        return there and self._made(vm, self.joins_after)

    def pass_a_period(self) -> int:
        """Jobs run, the monitor looks, the controller decides; how many workers there are."""
        for vm, since in list(self.leaving.items()):
            if self.period >= since + self.ends_after:
                del self.leaving[vm]
                self._end(vm)
        self._place()
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
                state=self._state(vm),
                bid=self.bids.get(vm, {"cpu": 0.0, "memory": 0.0}),
                allocation=NOTHING if vm in self.roomless else FULL,
                leaving=vm in self.leaving,
            )
            for vm, name in clusters.items()
        )
        self.period += 1
        at_s = 1_000.0 + 60.0 * self.period + self.clock_off_s
        if not self.blind:
            heard = Measured(
                cluster="head", at_s=at_s, values=queue_values(queue, WorkerNames.of(WORKER))
            )
            finish(self.one.take(heard))
        latest = news(
            period=self.period,
            vms=vms,
            balance=self.balance,
            prices={"cpu": self.price, "memory": self.price / 10},
            sizes={"head": 1, "workers": len(self.workers) - len(self.leaving)},
        )
        latest = replace(latest, at_s=latest.at_s + self.clock_off_s)
        finish(self.one.take(latest))
        return len(self.workers)
