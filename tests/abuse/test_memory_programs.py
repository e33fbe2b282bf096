"""A tenant that repeats random actions pays for the memory that its guests hold.

The actions resemble those of `test_programs.py`, with bids, claims and starts that affect memory.
256 MiB of each guest do not count, because no guest is shrunk further.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.market.price import PriceRule
from merkatd.scheduler.observation.memory_in_use import LEAST_MIB
from tests.abuse.memory import FAIR_BID, HOST_MIB, Memory
from tests.abuse.programs import NONE
from tests.daemon.soak import FIRST_SEED, KILLS, KILLS_PER_SITE
from tests.lengths import shorten
from tests.scheduler.frontend import PASSWORD

STEP_S = 5
STEPS = 12
"""The number of steps in a period."""
FREE_PERIODS = shorten(12, 6)
"""The first periods, in which a few starts are free."""
PERIODS = shorten(20, 6)
LEAST = 0.7
"""The least part of the neighbours' price; a guest's memory is known only when observed."""
LITTLE_MIB = HOST_MIB / 20
SEEDS = range(FIRST_SEED, FIRST_SEED + (2 if KILLS == KILLS_PER_SITE else KILLS))
ACTIONS = (
    *("poweroff-hard", "resume", "poweroff-hard", "resume", "suspend", "reboot-hard", "anew"),
    *("undeploy-hard", "end", "fails", "bid", "bid", "bid", "claim", "claim", "most", "use"),
)
VALUES = {
    "bid": ("MERKAT_BID_MEMORY", (0, 0.01, 5, 19, 60)),
    "claim": ("MERKAT_MIN_MEMORY", (0, 2000, 8192, 12_000)),
    "most": ("MERKAT_MAX_MEMORY", (128, 1000, 8192)),
}


@dataclass(frozen=True, slots=True)
class Act:
    """An action, and its step in each round."""

    step: int
    action: str
    value: float
    to_all: bool


class Tenant:
    """A tenant's VMs, and the actions that it repeats on them."""

    def __init__(self, memory: Memory, seed: int) -> None:
        self.memory = memory
        self.rng = rng = random.Random(seed)  # noqa: S311 - replayed from its seed
        self.size_mib = rng.choice([2048, 8192, 8192, 12_000])
        self.use_mib = min(rng.choice([64, 2000, 8000]), self.size_mib - 100)
        self.bid = rng.choice([0.01, 0.5, 5, 19, 60])
        self.claim = rng.choice([0, 0, 0, 2000, self.size_mib])
        self.round_steps = rng.choice([12, 12, 24, 36])
        self.acts = [self._act(one) for one in rng.choices(ACTIONS, k=rng.choice([1, 2, 2, 3, 4]))]
        self.vms = [self._new() for _ in range(rng.choice([1, 1, 2, 3]))]

    def _act(self, action: str) -> Act:
        _, values = VALUES.get(action, ("", (64, 2000, 8000)))
        rng = self.rng
        step, to_all = rng.randrange(self.round_steps), rng.random() < 0.7
        return Act(step, action, rng.choice(values), to_all)

    def _new(self) -> int:
        claim = {"MERKAT_MIN_MEMORY": self.claim} if self.claim else {}
        size = {"MEMORY": self.size_mib, **claim}
        return self.memory.vm("eve", self.bid, self.use_mib, **size)

    def do(self, step: int) -> None:
        """Do the actions of this step."""
        for act in self.acts:
            if step % self.round_steps == act.step:
                for at in self._meant(act):
                    self._do(at, act)

    def _meant(self, act: Act) -> Iterator[int]:
        yield from range(len(self.vms)) if act.to_all else [self.rng.randrange(len(self.vms))]

    def _do(self, at: int, act: Act) -> None:
        vm, bench = self.vms[at], self.memory.site.bench
        session = f"eve:{PASSWORD}"
        if vm == NONE:
            self.vms[at] = self._new()
        elif act.action in VALUES:
            text = f'{VALUES[act.action][0]}="{act.value}"'
            bench.raw("one.vm.update", vm, text, 1, session=session)
        elif act.action == "use":
            text = f'EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="{act.value}"]'
            bench.raw("one.vm.update", vm, text, 1, session=session)
        elif act.action in {"anew", "end"}:
            bench.raw("one.vm.action", "terminate-hard", vm, session=session)
            self.vms[at] = self._new() if act.action == "anew" else NONE
        elif act.action == "fails":
            fault = Fault(FaultKind.FAIL, vm=vm, lcm="BOOT", count=1)
            self.memory.site.cloud.faults.add(fault)
        else:
            bench.raw("one.vm.action", act.action, vm, session=session)


class World:
    """The host, and the memory that its guests hold."""

    def __init__(self, rule: PriceRule) -> None:
        self.memory = Memory(rule)
        self.site = self.memory.site
        self.held = {True: 0.0, False: 0.0}
        """The MiB-periods: those of the tenant (True) and of its neighbours (False)."""
        self._woken = False
        self.memory.add_neighbours()
        self.site.periods(4)
        self.site.scheduler._beat.wake = self._wake  # type: ignore[method-assign]

    def _wake(self, least_s: float = 0.0) -> None:  # noqa: ARG002
        self._woken = True

    def run_step(self, step: int) -> None:
        """Advance five seconds, with a period if one is due or was requested early."""
        self.site.clock.advance(STEP_S)
        if self._woken or step % STEPS == STEPS - 1:
            self._woken = False
            self.site.period()
        for vm, guest in self.site.cloud.guests.read().items():
            eves = self.site.cloud.world.vms.rows[vm].uid == self.memory.eve
            self.held[eves] += max(guest.balloon_mib - LEAST_MIB * eves, 0.0) / STEPS

    def balances(self) -> tuple[float, float]:
        """Return the tenant's balance, and its neighbours' together."""
        found = self.site.balances()
        return found[self.memory.eve], found[self.site.ann] + found[self.site.bob]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tenant_pays_for_the_memory_that_its_guests_hold(seed: int) -> None:
    """Its neighbours pay their bids at most."""
    rule = PriceRule.PAPER if seed % 5 == 0 else PriceRule.CLEARING
    world = World(rule)
    try:
        tenant = Tenant(world.memory, seed)
        before = world.balances()
        for step in range((FREE_PERIODS + PERIODS) * STEPS):
            if step == FREE_PERIODS * STEPS:
                before, world.held = world.balances(), {True: 0.0, False: 0.0}
            tenant.do(step)
            world.run_step(step)
        world.site.period()
        after = world.balances()
    finally:
        world.memory.close()
    paid, fair_paid = (first - last for first, last in zip(before, after, strict=True))
    held, fair_held = world.held[True], world.held[False]
    neighbours = len(world.memory.fair)
    assert fair_paid <= 1.02 * neighbours * (FAIR_BID + 0.1) * (PERIODS + 1)
    if held > LITTLE_MIB * PERIODS:
        assert paid / held >= LEAST * fair_paid / fair_held, (held, paid, fair_held, fair_paid)
