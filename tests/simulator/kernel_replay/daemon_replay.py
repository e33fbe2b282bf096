"""The recorded events of a run of the kernel, in the daemon with the embedded cloud."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from merkatd.currency.settings import MoneySettings
from merkatd.embedded.model.settings import Delays, HostSize
from merkatd.embedded.model.vm_states import Lcm, OneVmState
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules, Rhythm
from simulator.kernel.data_center import DataCenter
from simulator.kernel.event_queue import EventKind
from simulator.kernel.kernel_snapshot import MARKET
from simulator.workloads.vm_requests import VmRequests
from tests.scheduler.frontend import PASSWORD, START_S, Frontend
from tests.simulator.both_ways.daemon_run import run_until
from tests.simulator.kernel_replay.recorded_run import DecidedPeriod, RecordedEvent

_RECREATE = 4
"""The operation of one.vm.recover with which OpenNebula's hook replaces VMs of failed hosts."""


class DaemonReplay(Frontend):
    """A daemon whose cloud has the hosts of a data centre, and in which events happen again."""

    def __init__(
        self, center: DataCenter, asked: VmRequests, strategy: str, pricing: Pricing, seed: int
    ) -> None:
        self._asked, self._rows = asked, dict[int, int]()
        sizes = center.hosts.capacity.tolist()
        market = MarketRules(
            name=MARKET, strategy=strategy, pricing=pricing, floor_part=1.0, floor_margin=0.0
        )
        super().__init__(
            hosts=len(sizes),
            size=HostSize(int(sizes[0][0]), int(sizes[0][1])),
            markets=(market,),
            rhythm=Rhythm(interval_s=center.rhythm.period_s),
            money=MoneySettings(supply=1e12),
            seed=seed,
        )
        self.decided: list[DecidedPeriod] = []
        self.hosts: dict[int, list[tuple[float, int]]] = {}
        self._set_delays(center)
        for host, size in zip(self.cloud.world.hosts, sizes, strict=True):
            host.total_cpu, host.total_memory_kib = int(size[0]), int(size[1]) * 1024
        count = int(asked.owner.max(initial=0)) + 1
        self.first_tenants([f"tenant{row}" for row in range(count)], 1e8)
        self.cloud.lifecycle.watch(self._watch)

    def _set_delays(self, center: DataCenter) -> None:
        """Let operations take as long as in the data centre."""
        costs, world = center.costs, self.cloud.world
        assert costs.suspend_s_per_mib == costs.resume_s_per_mib == costs.migrate_s_per_mib
        delays = Delays(
            dispatch_s=0.0,
            by_state={Lcm.BOOT: costs.boot_s},
            memory_mib_s=1.0 / costs.migrate_s_per_mib,
        )
        world.settings = replace(
            world.settings, delays=delays, monitor_interval_s=center.rhythm.monitor_s
        )

    def replay(self, events: Sequence[RecordedEvent], span_s: float) -> None:
        """Let the events happen, each at its time, and run the periods until the span is over."""
        for event in events:
            run_until(self.clock, START_S + event.at_s)
            if event.kind is EventKind.PERIOD:
                self._period()
            elif event.kind is EventKind.VM_ARRIVES:
                for row in event.rows:
                    self._rows[self._create(row)] = row
            elif event.kind is EventKind.VM_ENDS:
                for row in event.rows:
                    self.bench.ok("one.vm.action", "terminate-hard", row)
            elif event.kind is EventKind.UNIT_FAILS:
                for host in event.rows:
                    self._fail(host)
            else:
                for host in event.rows:
                    self.bench.ok("embedded.host.up", host)
        run_until(self.clock, START_S + span_s)
        self.agree()

    def _create(self, row: int) -> int:
        asked = self._asked
        cpu, memory = asked.size[row].tolist()
        bid = asked.bid[row].tolist()
        text = (
            f'CPU="{cpu / 100!r}"\nVCPU="{round(cpu / 100)}"\nMEMORY="{memory:g}"\n'
            f'MERKAT_BID_CPU="{bid[0]!r}"\nMERKAT_BID_MEMORY="{bid[1]!r}"\n'
            f'EMBEDDED=[WORK="1e12",DEMAND="1",MEMORY_USE="{memory:g}"]'
        )
        return self.bench.new(text, session=f"tenant{asked.owner[row]}:{PASSWORD}")

    def _fail(self, host: int) -> None:
        """Let a host fail; OpenNebula's hook lets its VMs wait for another one.

        A VM on its way there stays where it is.
        """
        there = list(self.cloud.world.hosts.rows[host].vms)
        self.bench.ok("embedded.host.down", host)
        for vm in there:
            its = self.bench.vm(vm)
            if its.lcm is Lcm.MIGRATE and its.history[-1].host == host:
                continue
            self.placed_again.add(vm)
            self.bench.ok("one.vm.recover", vm, _RECREATE)

    def _period(self) -> None:
        begun_s = self.clock.seconds()
        done = self.period()
        assert self.clock.seconds() == begun_s, "a period takes no time"
        seen, decision = done.seen.snapshot, done.decided.decision
        self.decided.append(DecidedPeriod(begun_s - START_S, seen, decision))

    def _watch(self, vm: Any, state: OneVmState, before: Lcm) -> None:  # noqa: ARG002
        """Record when VMs begin to compute."""
        if vm.lcm is Lcm.RUNNING and before is not Lcm.RUNNING:
            now_s = self.cloud.world.now() - START_S
            self.hosts.setdefault(self._rows[vm.id], []).append((now_s, vm.history[-1].host))
