"""A batch system in virtual time: its queue, its head and the daemon."""

import json
import re
from dataclasses import dataclass, field, replace
from math import isfinite
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
    """Return the terms of a cluster of VMs of one core."""
    return ClusterTerms(
        name=name, least=least, most=most, floor={"cpu": 10.0, "memory": 64.0}, ceiling=FULL
    )


class KilledError(Exception):
    """The controller's process ends at this point."""


@dataclass
class Site:
    """Jobs of one core that last several periods; the head and the daemon in one."""

    price: float = 0.01
    capacity: float = 1e6
    """How much the market has of each good."""
    missing: str = ""
    """A good that the template names, and that is not sold any more."""
    balance: float = 1e6
    every_s: float = 20.0
    """The monitor's interval between two looks."""
    least: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    workers: dict[int, list[int]] = field(default_factory=dict)
    drained: set[int] = field(default_factory=set)
    lost: int = 0
    """The number of jobs that ran on workers when they ended."""
    bids: dict[int, Any] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    """The memory that the controller stored."""
    heard: list[str] = field(default_factory=list)
    deaf: bool = False
    mumbles: bool = False
    """Whether the head obeys but its answer is lost."""
    blind: bool = False
    """Whether the monitor receives no data from the head."""
    period: int = 0
    off: set[int] = field(default_factory=set)
    """Workers that are powered off and can't be reached."""
    unseen: set[int] = field(default_factory=set)
    """Workers unknown to OpenNebula, whose jobs continue."""
    mute: set[int] = field(default_factory=set)
    """Workers that run but never join."""
    states: dict[int, str] = field(default_factory=dict)
    """The reported states of workers that do not run."""
    roomless: set[int] = field(default_factory=set)
    """Workers without room on any host."""
    placed: set[int] = field(default_factory=set)
    """The other workers."""
    room: int | None = None
    """The number of workers that have room; None for all."""
    made_after: int = 0
    """The periods until a requested worker exists, for some up to two more;"""
    joins_after: int = 0
    """and until it has joined."""
    born: dict[int, int] = field(default_factory=dict)
    """The period of the request, by worker."""
    undrained: list[int] = field(default_factory=list)
    """Workers that were ended while they accepted jobs or before they joined."""

    hidden: set[int] = field(default_factory=set)
    """Workers that the news leave out for now."""
    clock_off_s: float = 0.0
    """The error of the clock on the daemon's machine."""
    ends_after: int = 0
    """The periods that an end takes;"""
    leaving: dict[int, int] = field(default_factory=dict)
    """and the period of the request, by ending worker."""
    forgotten: set[int] = field(default_factory=set)
    """Workers that the head no longer has,"""
    sticky: set[int] = field(default_factory=set)
    """and workers that it doesn't remove."""
    dies: bool = False
    """Whether the controller is killed after an accepted release."""

    def __post_init__(self) -> None:
        full = FULL | ({self.missing: 10.0} if self.missing else {})
        looks = MonitorTerms(kind="queue", parameters={"every_s": self.every_s})
        head = replace(cluster("head", 1, 1), monitor=looks)
        terms = tuple(
            replace(terms, ceiling=full) for terms in (head, cluster("workers", self.least, 20))
        )
        given = replace(
            assignment(), clusters=terms, parameters={"batch": "slurm"} | self.parameters
        )
        self.controller = Elastic(given, self)
        self.controller.head = self  # type: ignore[assignment] # it says what a head says
        finish(self.controller.on_start())

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        self.asked.append(body)
        if isinstance(body, Remember):
            if self.dies and self.leaving:
                raise KilledError
            self.kept = json.loads(json.dumps(body.memory))
            return Stored()
        if isinstance(body, SetBids):
            assert all(isfinite(amount) for bid in body.bids.values() for amount in bid.values())
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
        """Answer as the head does."""
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
        """Replace the killed controller by one with the stored memory."""
        given = replace(self.controller.assignment, memory=self.kept)
        self.controller = Elastic(given, self)
        self.controller.head = self  # type: ignore[assignment] # it says what a head says
        finish(self.controller.on_start())

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
        """Keep placed workers on their hosts; the oldest others take the free room."""
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
        """Run jobs, monitor and controller for a period; return the number of workers."""
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
            finish(self.controller.take(heard))
        latest = news(
            period=self.period,
            vms=vms,
            balance=self.balance,
            prices={"cpu": self.price, "memory": self.price / 10},
            capacity=dict.fromkeys(FULL, self.capacity),
            sizes={"head": 1, "workers": len(self.workers) - len(self.leaving)},
        )
        latest = replace(latest, at_s=latest.at_s + self.clock_off_s)
        finish(self.controller.take(latest))
        return len(self.workers)
