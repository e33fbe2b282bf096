"""A scripted tenant: it creates VMs, watches them, changes its bid and ends them, by XML-RPC."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from merkatd.base.quantities import credits_text
from merkatd.demo.demo_options import SIMULATED, DemoScale
from merkatd.demo.demo_script import (
    BidPace,
    Character,
    ScriptedTenant,
    ScriptedWork,
    bid_template,
    errand,
    next_bid,
    vm_template,
)
from merkatd.opennebula import Client
from merkatd.opennebula.pools.vm_pool import read_page
from merkatd.opennebula.rpc.errors import OneError, OneMissingError
from merkatd.scheduler.base.ports import CloudUnreachableError

MINE, ALL, NOT_DONE = -3, -1, -1
POWEROFF = 8
PATIENCE = 1.25
"""The multiple of its time to the deadline after which an application is given up."""

Notify = Callable[[str, str], None]
"""Called with an action of a tenant and its reason."""


@dataclass
class RunningErrand:
    """An application of a tenant, running or ended."""

    errand: ScriptedWork
    bid: float
    vms: dict[int, float] = field(default_factory=dict)
    """By VM id, the work done in core-minutes."""
    alive: set[int] = field(default_factory=set)
    ended_min: float | None = None
    order: int | None = None
    """The id of its limit order, if it has stated one."""

    @property
    def done(self) -> float:
        """Return the part of its work that is done."""
        return min(1.0, sum(self.vms.values()) / (self.errand.work * self.errand.vms))

    @property
    def deadline_min(self) -> float:
        """Return the time of its deadline, in minutes."""
        return self.errand.arrival_min + self.errand.deadline_min

    def pace(self, now_min: float) -> BidPace:
        """Return its progress."""
        return BidPace(self.done, (now_min - self.errand.arrival_min) / self.errand.deadline_min)

    @property
    def finished(self) -> bool:
        """Return whether every VM has done all its work."""
        return len(self.vms) == self.errand.vms and self.done > 1.0 - 1e-6

    @property
    def kept(self) -> bool:
        """Return whether it ended in time with all work done."""
        return self.finished and self.ended_min is not None and self.ended_min <= self.deadline_min


class ScriptPlayer:
    """A tenant with its own login; it learns about its VMs only by calls."""

    def __init__(
        self,
        tenant: ScriptedTenant,
        user: int,
        client: Client,
        seed: int,
        hosts: int,
        scale: DemoScale = SIMULATED,
        market: Client | None = None,
        *,
        takes_orders: bool = True,
    ) -> None:
        """`market` calls Merkat itself; only a tenant with a limit order needs it.

        Without `takes_orders` the market takes none, and each VM of this tenant bids its part.
        """
        self.tenant = tenant
        self.user = user
        self.past: list[RunningErrand] = []
        self.now: RunningErrand | None = None
        self._client = client
        self._market = market
        self._seed = seed
        self._hosts = hosts
        self._scale = scale
        self.states_orders = takes_orders and tenant.character is Character.WHOLE
        self._made = 0
        self._bid_min = 0.0

    @property
    def applications(self) -> list[RunningErrand]:
        """Return all its applications, the newest last."""
        return self.past if self.now is None else [*self.past, self.now]

    @property
    def next_errand(self) -> ScriptedWork:
        """Return its next application."""
        work = errand(self.tenant, len(self.past), self._seed, self._hosts, self._scale)
        if self.tenant.character is Character.WHOLE and not self.states_orders:
            return replace(work, bid=float(max(round(work.bid / work.vms), 1)))
        return work

    async def act(self, now_min: float, work_done: Mapping[int, float], tell: Notify) -> None:
        """Carry out the due actions; `work_done` has core-minutes by VM, from the VMs' logs."""
        try:
            if self.now is None:
                await self._arrive(now_min, tell)
            else:
                self.now.vms.update((vm, work_done[vm]) for vm in self.now.vms if vm in work_done)
                await self._look_after(self.now, now_min, tell)
        except (OneError, CloudUnreachableError) as error:
            tell("is refused", str(error))

    async def _arrive(self, now_min: float, tell: Notify) -> None:
        wanted = self.next_errand
        if now_min < wanted.arrival_min:
            return
        self.now = RunningErrand(wanted, wanted.bid)
        self._bid_min = now_min
        whole = self.states_orders
        bid_text = f"and bids {credits_text(wanted.bid)} credits a period"
        bids = "and wants all of them to run, or none" if whole else bid_text
        tell(
            f"arrives with {wanted.vms} VMs {bids}",
            f"{wanted.vms * wanted.work:.0f} core-minutes to do in {wanted.deadline_min:.0f} min",
        )
        for _ in range(wanted.vms):
            self._made += 1
            name = f"{self.tenant.name}-{self._made}"
            bid = 0.0 if whole else wanted.bid
            template = vm_template(name, wanted.work, bid, self._scale)
            # On hold until the order is stated: a pending VM would get a host for its bid.
            vm = await self._client.call("one.vm.allocate", template, whole)
            self.now.vms[vm] = 0.0
            self.now.alive.add(vm)

    async def _look_after(self, now: RunningErrand, now_min: float, tell: Notify) -> None:
        pool = await self._client.call("one.vmpool.infoextended", MINE, ALL, ALL, NOT_DONE)
        states = {row.id: row.state for row in read_page(pool).vms}
        given_up = now_min > now.errand.arrival_min + now.errand.deadline_min * PATIENCE
        for vm in sorted(now.alive):
            if states.get(vm) == POWEROFF:
                now.vms[vm] = now.errand.work
            if given_up or states.get(vm) == POWEROFF:
                await self._client.action("terminate-hard", vm)
                now.alive.discard(vm)
        if now.alive:
            if self.states_orders:
                await self._state_order(now, tell)
            else:
                await self._bid_anew(now, now_min, tell)
            return
        now.ended_min = now_min
        self.past.append(now)
        self.now = None
        spare = now.deadline_min - now_min
        when = f"{abs(spare):.0f} min {'before' if spare >= 0 else 'after'} the deadline"
        tell("leaves" if now.finished else "gives up", f"{now.done:.0%} done {when}")

    async def _state_order(self, now: RunningErrand, tell: Notify) -> None:
        """State the limit order once a period has seen the VMs, then release them."""
        if now.order is not None or self._market is None:
            return
        try:
            vms = sorted(now.alive)
            now.order = await self._market.call("merkat.order.set", vms, float(now.bid))
        except OneMissingError:
            return
        for vm in vms:
            await self._client.action("release", vm)
        tell(
            f"states a limit order: at most {credits_text(now.bid)} credits a period",
            f"its {len(vms)} VMs run together at full size, or not at all",
        )

    async def _bid_anew(self, now: RunningErrand, now_min: float, tell: Notify) -> None:
        """Change the bid at most once a minute: a bid applies from the next period on."""
        if now_min - self._bid_min < 1.0:
            return
        pace = now.pace(now_min)
        bid = next_bid(self.tenant.character, now.errand.bid, now.bid, pace)
        self._bid_min = now_min
        if bid == now.bid:
            return
        for vm in sorted(now.alive):
            await self._client.append(vm, bid_template(bid))
        why = f"{pace.done:.0%} done in {pace.passed:.0%} of its time"
        changes = "raises" if bid > now.bid else "lowers"
        told = f"{changes} its bid from {credits_text(now.bid)} to {credits_text(bid)}"
        tell(told, why)
        now.bid = bid
