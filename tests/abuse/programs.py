"""A tenant that repeats a few actions on its VMs; their kind and times depend on a seed.

An abuse is seldom a single action. More often it is a rhythm, such as to be on at each observation
and off in between. So a program is a list of timed actions, repeated for the whole test.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from tests.abuse.arena import FAIR_BID, PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

ACTIONS = (
    *("poweroff-hard", "resume", "poweroff-hard", "resume", "suspend", "resume", "reboot-hard"),
    *("undeploy-hard", "hold", "release", "lock", "unlock", "anew", "end", "refused"),
    *("bid", "bid", "claim", "resize", "fails BOOT", "fails PROLOG", "fails MIGRATE"),
)
MOMENTS_S = (0, 1, 2, 3, 4, 6, 9, 12, 20, 30, 40, 50, 52, 54, 56, 57, 58, 59)
SLOW = (
    *(Lcm.PROLOG, Lcm.BOOT, Lcm.SAVE_SUSPEND, Lcm.SHUTDOWN_POWEROFF, Lcm.MIGRATE),
    *(Lcm.BOOT_POWEROFF, Lcm.BOOT_SUSPENDED),
)
NONE = -1
"""The id of an ended VM, until the next act on it creates another one."""


@dataclass(frozen=True, slots=True)
class Act:
    """An action, and its time within each round."""

    after_s: float
    action: str
    value: float
    to: str
    """The targets: `all` VMs, a random `one`, or every `other` one in turns."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program drawn from a seed."""

    seed: int
    rule: PriceRule
    by_use: bool
    hosts: int
    vms: int
    bid: float
    attributes: dict[str, float]
    slow: bool
    unsteady: bool
    """Acts are up to two seconds late."""
    round_s: float
    acts: tuple[Act, ...]


def program(seed: int) -> Program:
    """Draw the program of this seed."""
    rng = random.Random(seed)  # noqa: S311 - replayed from its seed
    vms = rng.choice([1, 1, 2, 3, 6, 12])
    round_s = rng.choice([60, 60, 60, 120, 30, 45, 75])
    by_use = rng.random() < 0.15
    bid = rng.choice([0.5, 5, 20, 80, 300]) / (vms if rng.random() < 0.5 else 1)
    attributes: dict[str, float] = {"VCPU": rng.choice([1, 2, 8]), "CPU": 0.1 if vms > 3 else 1}
    for name, values in (
        ("MERKAT_MAX_CPU", (0, 0, 16, 100, 400)),
        ("MERKAT_MIN_CPU", (0, 0, 0, 100, 400, 800)),
    ):
        value = rng.choice(values)
        if value:
            attributes[name] = value
    acts = [
        Act(rng.choice(MOMENTS_S) % round_s, action, _value(rng, action), _whom(rng))
        for action in rng.choices(ACTIONS, k=rng.choice([1, 2, 2, 3, 4, 6]))
    ]
    return Program(
        seed=seed,
        rule=PriceRule.PAPER if not by_use and rng.random() < 0.2 else PriceRule.CLEARING,
        by_use=by_use,
        hosts=rng.choice([1, 1, 1, 2]),
        vms=vms,
        bid=FAIR_BID if by_use else bid,
        attributes=attributes,
        slow=rng.random() < 0.25,
        unsteady=rng.random() < 0.3,
        round_s=round_s,
        acts=tuple(sorted(acts, key=lambda act: act.after_s)),
    )


def _value(rng: random.Random, action: str) -> float:
    match action:
        case "bid":
            return rng.choice([0, 0.01, 1, 20, 80, 300, 2000])
        case "claim":
            return rng.choice([0, 50, 200, 800])
        case "resize":
            return rng.choice([1, 2, 4, 8])
    return 0.0


def _whom(rng: random.Random) -> str:
    return rng.choice(["all", "all", "one", "other"])


class ProgramPlayer:
    """A tenant that runs a program on its VMs."""

    def __init__(self, me: Player, of: Program) -> None:
        self.me = me
        self.of = of
        self.rng = random.Random(of.seed + 1)  # noqa: S311 - replayed from its seed
        if of.slow:
            self._slow_down(me.arena)
        self.vms = [self._new() for _ in range(of.vms)]

    def moves(self) -> Moves:
        """Run the program for ever, after a first period."""
        yield PERIOD_S
        now_s, begins_s, rounds = 0.0, 0.0, 0
        while True:
            for act in self.of.acts:
                at_s = begins_s + act.after_s + (self.rng.choice([0, 1, 2]) * self.of.unsteady)
                if at_s > now_s:
                    yield at_s - now_s
                    now_s = at_s
                for at in self._meant(act.to, rounds):
                    self._do(at, act)
            begins_s, rounds = begins_s + self.of.round_s, rounds + 1
            if begins_s > now_s:
                yield begins_s - now_s
                now_s = begins_s

    def _slow_down(self, arena: Arena) -> None:
        for state in SLOW:
            if self.rng.random() < 0.4:
                arena.set_duration(state, self.rng.choice([5, 12, 30, 90]))

    def _new(self) -> int:
        return self.me.vm(self.of.bid, **self.of.attributes)

    def _meant(self, to: str, rounds: int) -> Iterator[int]:
        match to:
            case "one":
                yield self.rng.randrange(len(self.vms))
            case "other":
                yield from range(rounds % 2, len(self.vms), 2)
            case _:
                yield from range(len(self.vms))

    def _do(self, at: int, act: Act) -> None:
        vm = self.vms[at]
        if vm == NONE:
            self.vms[at] = self._new()
            return
        match act.action.split():
            case ["bid"]:
                self.me.set(vm, MERKAT_BID_CPU=FAIR_BID if self.of.by_use else act.value)
            case ["claim"]:
                self.me.set(vm, MERKAT_MIN_CPU=act.value)
            case ["anew" | "end" as action]:
                self.me.end(vm)
                self.vms[at] = self._new() if action == "anew" else NONE
            case ["resize" | "lock" | "unlock" as call]:
                size = f"VCPU={act.value:.0f}", False
                more = {"resize": size, "lock": (self.rng.randrange(1, 5), True)}.get(call, ())
                self.me.ask(f"one.vm.{call}", vm, *more)
            case ["refused"]:
                self._fault(Fault(FaultKind.REFUSE, "one.vm.deploy", vm=vm, count=1))
            case ["fails", state]:
                self._fault(Fault(FaultKind.FAIL, vm=vm, lcm=state, count=1))
            case _:
                self.me.act(vm, act.action)

    def _fault(self, fault: Fault) -> None:
        self.me.arena.cloud.faults.add(fault)
