"""A scenario of jobs in the daemon, with the embedded cloud and real controllers, in virtual time.

Each job is a platform of kind `patient` of its own tenant. The clock stops at each event's own
time, so that no time is rounded to the steps of a test.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from twisted.internet.task import Clock

from controllers.applications.deadline_controllers import Patient
from controllers.decision_times import DecisionTimes
from controllers.monitors.iteration_count import measured_values, of_guest
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import entry_store
from merkatd.database.ledger.entry_store import TransactionKind
from merkatd.embedded.model.records import Vm
from merkatd.embedded.model.settings import Delays, HostSize
from merkatd.embedded.model.vm_states import Lcm, OneVmState
from merkatd.market.price import PriceRule
from merkatd.opennebula.hook_events import is_reason_to_observe
from merkatd.placement.contract import Pricing
from merkatd.platforms.manager import Manager
from merkatd.platforms.rules.lifecycle_events import ENDS
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import Assignment, Kinds, MarketNow, News, PlatformStatus
from merkatd.scheduler.base.early_periods import GATHER_S
from merkatd.scheduler.base.settings import MarketRules, Rhythm
from merkatd.scheduler.phases.announce import Announcement
from simulator.market.attended_applications import STEPS, TASKS
from simulator.model.simulated_cloud import RESOURCES, SimulatedCloud
from simulator.orders.patient_controllers import PHASE
from simulator.workloads.job_applications import Application
from tests.platforms.site import Notes, Site
from tests.scheduler.frontend import START_S

_COMPUTES = frozenset({Lcm.RUNNING, Lcm.MIGRATE})


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What happened to a job; times are relative to the first period."""

    starts: tuple[float, ...]
    """When its VMs computed, all together, after each start."""
    suspensions: tuple[float, ...]
    """When its first VM stopped computing because the order was displaced."""
    end_s: float
    """When its work was done; infinite if it never was."""
    spent: int
    """Micro-credits."""


def run_until(clock: Clock, until_s: float) -> None:
    """Run all calls up to this time, each at its own time."""
    while clock.calls and clock.calls[0].getTime() <= until_s:
        clock.rightNow = max(clock.rightNow, clock.calls[0].getTime())
        clock.advance(0)
    clock.rightNow = max(clock.rightNow, until_s)


class _Attendant(Notes):
    """Runs each platform's real controller at the time of its news."""

    def __init__(self, site: "DaemonRun") -> None:
        super().__init__()
        self._site = site
        self._attended: dict[int, _Attended] = {}
        self.offered = Kinds(("patient",), ())

    async def start(self, assignment: Assignment) -> None:
        """Start a controller."""
        await super().start(assignment)
        controller = Patient(assignment, _Line(self._site, assignment.platform))
        await controller.on_start()
        self._attended[assignment.platform] = _Attended(self._site, controller)

    async def stop(self, platform: int, grace_s: float) -> None:
        """Stop a controller."""
        await super().stop(platform, grace_s)
        self._attended.pop(platform).stop()

    def tidy(self, kept: AbstractSet[int]) -> int:  # noqa: ARG002
        """Return 0: there are no files."""
        return 0

    def announce(self, markets: Sequence[MarketNow], standings: Sequence[PlatformStatus]) -> None:
        """Pass the news to the controllers."""
        by_name = {market.name: market for market in markets}
        for standing in standings:
            market = by_name[self.running[standing.platform].market]
            news = News.joined(standing, market)
            self._site.clock.callLater(0.0, self._attended[standing.platform].hear, news)


class _Attended:
    """A controller with its decision times."""

    def __init__(self, site: "DaemonRun", controller: Patient) -> None:
        self._site, self._controller = site, controller
        self._times = DecisionTimes(controller.assignment.interval_s)
        self._stopped = False
        self._vms: Sequence[int] = ()
        site.clock.callLater(PHASE * site.monitor_s, self._watch)

    def _watch(self) -> None:
        """Report the end of the work, as a monitor that looks again and again."""
        if self._stopped:
            return
        if "exit" in self._site.iterations(self._vms):
            self._measure(self._vms)
        self._site.clock.callLater(self._site.monitor_s, self._watch)

    def _measure(self, vms: Sequence[int]) -> None:
        if values := self._site.iterations(vms):
            at_s = self._site.clock.seconds()
            measured = Measured(cluster=TASKS, at_s=at_s, values=values)
            self._site.wait(self._controller.take(measured))

    def hear(self, news: News) -> None:
        """Give the controller measurements, and the news now or when it decides next."""
        clock = self._site.clock
        if self._stopped:
            return
        self._vms = [vm.vm for vm in news.vms]
        self._measure([vm.vm for vm in news.vms if vm.state == "running"])
        self._take(self._times.select(news, clock.seconds()))
        if self._times.late_s < inf:
            clock.callLater(max(self._times.late_s - clock.seconds(), 0.0), self._hear_late)

    def stop(self) -> None:
        """Take no more news."""
        self._stopped = True

    def _hear_late(self) -> None:
        if not self._stopped:
            self._take(self._times.select_late(self._site.clock.seconds()))

    def _take(self, news: News | None) -> None:
        if news is not None:
            self._site.wait(self._controller.take(news))


class _Line:
    """A controller's connection to the manager."""

    def __init__(self, site: "DaemonRun", platform: int) -> None:
        self._site, self._platform, self._number = site, platform, 0

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Pass on a message as the bus does."""
        if isinstance(body, Remember):
            await self._site.manager.remember(self._platform, body.memory)
            return Stored()
        self._number += 1
        given = action_id or f"{self._platform}-{self._number}-{self._site.clock.seconds()}"
        outcome = await self._site.manager.act(self._platform, given, body)
        self._site.asked.append((self._site.clock.seconds(), self._platform, body))
        assert outcome.accepted, (body, outcome)
        return outcome


class DaemonRun(Site):
    """A daemon that runs the jobs of a simulated cloud."""

    def __init__(self, cloud: SimulatedCloud, jobs: Sequence[Application], rhythm: Rhythm) -> None:
        reserve = {RESOURCES[0]: cloud.reserve_cpu, RESOURCES[1]: cloud.reserve_memory}
        pricing = Pricing(rule=PriceRule.CLEARING, reserve=reserve)
        market = MarketRules(name="simulated", strategy=cloud.strategy, pricing=pricing)
        self.asked: list[tuple[float, int, Any]] = []
        super().__init__(
            hosts=cloud.nodes,
            size=HostSize(int(cloud.cpu), int(cloud.memory_mib)),
            markets=(market,),
            rhythm=rhythm,
            money=MoneySettings(supply=1e9, replenishment_s=cloud.renewal_s),
        )
        self._jobs, self._memory_use = jobs, cloud.memory_use
        self.monitor_s = cloud.monitor_s
        self._set_delays(cloud)
        self._owners = self.first_tenants([f"tenant{row}" for row in range(len(jobs))], 1e6)
        self._row_of = {owner: row for row, owner in enumerate(self._owners)}
        self._platforms: dict[int, int] = {}
        self._computing = [0 for _ in jobs]
        self._began: list[list[float]] = [[] for _ in jobs]
        self._saved: list[list[float]] = [[] for _ in jobs]
        self._ended: list[dict[int, float]] = [{} for _ in jobs]
        self._gathering = False
        self.starts: list[float] = []
        self.cloud.lifecycle.watch(self._watch)

    def start_daemon(self) -> None:
        """Start a daemon whose platforms have real controllers."""
        super().start_daemon()
        self.notes = _Attendant(self)
        self.manager = Manager(self.scheduler.world, self.notes)
        world = replace(self.scheduler.world, proposals=self.manager.proposals)
        self.scheduler.world = world
        self.scheduler.listen(self._after_period)

    def _after_period(self, announcement: Announcement) -> None:
        self.starts.append(announcement.seen.started_s - START_S)
        self.manager.send_news(announcement)

    def _set_delays(self, cloud: SimulatedCloud) -> None:
        """Let operations take as long as in the simulated cloud."""
        costs, world = cloud.costs, self.cloud.world
        assert costs.suspend_s_per_mib == costs.resume_s_per_mib == costs.migrate_s_per_mib
        delays = Delays(
            dispatch_s=0.0,
            by_state={Lcm.BOOT: costs.boot_s},
            memory_mib_s=1.0 / costs.suspend_s_per_mib,
        )
        world.settings = replace(world.settings, delays=delays, monitor_interval_s=3600.0)

    def run(self, most_s: float) -> list[JobRecord]:
        """Run all jobs to their end; return what happened to each."""
        self.scheduler.start()
        for row, job in enumerate(self._jobs):
            run_until(self.clock, START_S + job.submit_s)
            self._submit(row, job)
        until_s = START_S + most_s
        while self.clock.seconds() < until_s and not self._all_ended():
            run_until(self.clock, self.clock.seconds() + 600.0)
        self.wait(self.scheduler.stop())
        return [self._record(row) for row in range(len(self._jobs))]

    def _submit(self, row: int, job: Application) -> None:
        vm = (
            f'CPU="1"\nVCPU="1"\nMEMORY="{job.memory_mib:g}"\nEMBEDDED=[WORK="{job.run_s!r}",'
            f'ITERATIONS="{STEPS}",DEMAND="1",MEMORY_USE="{job.memory_mib * self._memory_use:g}"]'
        )
        credits_ = job.budget * job.tasks
        text = f"""
name = "job{row}"
over_budget = "go on"
controller = {{ kind = "patient", parameters = {{ steps = {STEPS} }} }}
budget = {{ credits = {credits_!r}, replenishment = {credits_!r} }}
slo = {{ deadline = "{job.deadline_s!r}s", ideal_run = "{job.run_s!r}s" }}
[[cluster]]
name = "tasks"
least = {job.tasks}
initial = {job.tasks}
most = {job.tasks}
template = '''{vm}'''
"""
        owner = self._owners[row]
        self._platforms[self.take(owner, text)] = row
        self.scheduler.wake_for(owner)

    def iterations(self, vms: Sequence[int]) -> dict[str, float]:
        """Return what a monitor of these VMs' guests measures now."""
        guests = {vm: self.cloud.guests.guest(vm) for vm in vms}
        counts = {vm: of_guest({"log": guest.log}) for vm, guest in guests.items() if guest}
        values = measured_values(counts, {}, self.clock.seconds())
        if values and all(count.done >= STEPS for count in counts.values()):
            values["exit"] = 0.0
        return values

    def _watch(self, vm: Vm, state: OneVmState, before: Lcm) -> None:
        """Record starts and suspensions, and wake the timer as OpenNebula's events do."""
        now_s = self.cloud.world.now() - START_S
        row = self._row_of.get(vm.uid, -1)
        if vm.lcm in _COMPUTES and before not in _COMPUTES:
            self._computing[row] += 1
            if self._computing[row] == self._jobs[row].tasks:
                self._began[row].append(now_s)
        elif before in _COMPUTES and vm.lcm not in _COMPUTES:
            if vm.lcm is Lcm.SAVE_STOP and self._computing[row] == self._jobs[row].tasks:
                self._saved[row].append(now_s)
            self._computing[row] -= 1
            guest = self.cloud.guests.guests[vm.id]
            if guest.finished:
                self._ended[row][vm.id] = guest.log[-1][0] - START_S
        life = "LCM_INIT" if vm.state is not OneVmState.ACTIVE else vm.lcm.name
        key = f"EVENT STATE VM/{vm.state.name}/{life}/{vm.id} "
        if (state, before) != (vm.state, vm.lcm) and is_reason_to_observe(key.encode()):
            self._gather()

    def _gather(self) -> None:
        if not self._gathering:
            self._gathering = True
            self.clock.callLater(GATHER_S, self._wake)

    def _wake(self) -> None:
        self._gathering = False
        self.scheduler.wake_after_event()

    def _all_ended(self) -> bool:
        return all(self.platform(platform).state in ENDS for platform in self._platforms)

    def _record(self, row: int) -> JobRecord:
        platform = next(number for number, its in self._platforms.items() if its == row)
        account = self.platform(platform).account or 0
        sums = self.read(lambda c: entry_store.sums(c, account, 0.0, None))
        ended = self._ended[row]
        return JobRecord(
            starts=tuple(self._began[row]),
            suspensions=tuple(self._saved[row]),
            end_s=max(ended.values()) if len(ended) == self._jobs[row].tasks else inf,
            spent=-sums.get(TransactionKind.CHARGE, 0),
        )
