"""A tenant that takes random actions at random times, on a kind of cloud drawn from the seed."""

import random
from contextlib import suppress
from dataclasses import dataclass

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import Lcm
from merkatd.ledger import LedgerError
from merkatd.market.price import PriceRule
from merkatd.platforms.tenant_orders import OrderError
from tests.abuse.arena import CORES, FAIR_BID, NEIGHBOURS, Arena, Player
from tests.abuse.listed import Moves

ACTIONS = (
    *("poweroff", "poweroff-hard", "suspend", "stop", "undeploy", "undeploy-hard", "reboot"),
    *("reboot-hard", "hold", "release", "resched", "unresched", "resume", "resume", "resume"),
)
SLOW = (
    *(Lcm.PROLOG, Lcm.BOOT, Lcm.SAVE_SUSPEND, Lcm.SAVE_STOP, Lcm.SHUTDOWN_POWEROFF, Lcm.MIGRATE),
    *(Lcm.SHUTDOWN_UNDEPLOY, Lcm.EPILOG, Lcm.EPILOG_STOP, Lcm.EPILOG_UNDEPLOY),
)
HIGH_BIDS = (0, 1e-9, 0.01, 1, 20, 300, 9000)
LOW_BIDS = (0, 1e-9, 0.001, 0.01, 0.3, 1, 5, 20)
MEMORY = (0, 1, 20, 9000, 100_000)
WAITS_S = (5, 5, 5, 5, 10, 20, 45, 55)
MOST_VMS = 4


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cloud, and the tenant's role there."""

    seed: int
    rule: PriceRule
    by_use: bool
    """The market of `groups`, in which all bid the same and pay for their use."""
    hosts: int
    bids: tuple[float, ...]
    idle: bool
    """Some cores are uncontended."""
    slow: bool
    """OpenNebula's actions take up to minutes."""
    memory: bool
    """The tenant changes memory too, and an administrator disables and enables hosts."""
    sells: bool
    """An administrator changes the owner of VMs to a neighbour, and back."""
    dies: bool
    """The daemon restarts occasionally."""
    fails: bool
    """The tenant causes refusals, locks and failures of its VMs."""


def kind(seed: int) -> Kind:
    """Draw the kind of cloud of this seed."""
    rng = random.Random(seed)  # noqa: S311 - replayed from its seed
    by_use = rng.random() < 0.25
    idle = not by_use and rng.random() < 0.2
    return Kind(
        seed=seed,
        rule=PriceRule.PAPER if not (idle or by_use) and rng.random() < 0.2 else PriceRule.CLEARING,
        by_use=by_use,
        hosts=rng.choice([1, 1, 2]),
        bids=(FAIR_BID,) if by_use else rng.choice([HIGH_BIDS, LOW_BIDS]),
        idle=idle,
        slow=rng.random() < 0.4,
        memory=rng.random() < 0.4,
        sells=rng.random() < 0.2,
        dies=rng.random() < 0.2,
        fails=rng.random() < 0.3,
    )


def arena(of: Kind) -> Arena:
    """Return a cloud of this kind."""
    return Arena(
        of.rule,
        hosts=of.hosts,
        strategy="groups" if of.by_use else None,
        neighbours=1 if of.idle else NEIGHBOURS,
        neighbours_cores=2 if of.idle else CORES,
    )


class RandomTenant:
    """A tenant's VMs, and its random actions on them."""

    def __init__(self, me: Player, of: Kind) -> None:
        self.me = me
        self.of = of
        self.rng = random.Random(of.seed)  # noqa: S311 - replayed from its seed
        self.vms: list[int] = []
        self.platform: int | None = None
        self.chances = [
            (38, self.act),
            (17, self.bid),
            (8, self.create),
            (7, self.resize),
            (6, self.claim),
            (4, self.recover),
            (3, self.end),
            *([(3, self.start_platform), (3, self.move_money)] if not of.by_use else []),
            *([(6, self.change_memory), (2, self.change_host)] if of.memory else []),
            *([(3, self.sell)] if of.sells else []),
            *([(4, self.kill)] if of.dies else []),
            *([(5, self.lock), (6, self.fail), (4, self.refuse)] if of.fails else []),
        ]

    def moves(self) -> Moves:
        """Act at random for ever."""
        if self.of.slow:
            self.slow_down()
        weights = [weight for weight, _ in self.chances]
        while True:
            if self.vms:
                _, move = self.rng.choices(self.chances, weights)[0]
                move()
            else:
                self.create()
            yield self.rng.choice(WAITS_S)

    def slow_down(self) -> None:
        """Make some of OpenNebula's states last long, once the neighbours' VMs run."""
        for state in SLOW:
            if self.rng.random() < 0.35:
                self.me.arena.set_duration(state, self.rng.choice([20, 90, 400]))

    def any_vm(self) -> int:
        """Return one of the tenant's VMs, which may have ended."""
        return self.rng.choice(self.vms)

    def act(self) -> None:
        """Request a random action of OpenNebula."""
        self.me.act(self.any_vm(), self.rng.choice(ACTIONS))

    def bid(self) -> None:
        """Change a bid."""
        self.me.set(self.any_vm(), MERKAT_BID_CPU=self.rng.choice(self.of.bids))

    def claim(self) -> None:
        """Change a least share."""
        self.me.set(self.any_vm(), MERKAT_MIN_CPU=self.rng.choice([0, 100, 400, 800]))

    def create(self) -> None:
        """Create a VM of a random size."""
        if len(self.vms) == MOST_VMS:
            return
        often: list[tuple[float, str, tuple[float, ...]]] = [
            (0.3, "VCPU", (1, 2, 8)),
            (0.2, "CPU", (0.1, 4, 8)),
            (0.2, "MERKAT_MIN_CPU", (50, 200, 800)),
            (0.1, "MERKAT_MAX_CPU", (1, 50, 200)),
        ]
        if self.of.memory:
            often += [
                (0.5, "MEMORY", (8192, 65536, 200_000)),
                (0.5, "MERKAT_BID_MEMORY", (0, 0.01, 1, 20)),
                (0.5, "MERKAT_MIN_MEMORY", (100, 8000, 60_000, 300_000)),
            ]
        rng = self.rng
        given = {name: rng.choice(values) for part, name, values in often if rng.random() < part}
        vm = self.me.vm(rng.choice(self.of.bids), **given)
        if vm >= 0:
            self.vms.append(vm)

    def resize(self) -> None:
        """Change the number of cores, if OpenNebula allows it."""
        text = f"VCPU={self.rng.choice([1, 2, 4, 8])}"
        self.me.ask("one.vm.resize", self.any_vm(), text, False)

    def recover(self) -> None:
        """Recover a VM as an administrator would, if OpenNebula allows it."""
        self.me.ask("one.vm.recover", self.any_vm(), self.rng.randrange(5))

    def end(self) -> None:
        """Terminate a VM."""
        self.me.end(self.vms.pop(self.rng.randrange(len(self.vms))))

    def start_platform(self) -> None:
        """Start a platform beside the VMs."""
        with suppress(LedgerError):  # the account has too few credits
            self.platform = self.me.platform(self.rng.choice([5.0, 500.0]))

    def move_money(self) -> None:
        """Move credits to or from the platform's budget, or stop the platform."""
        platform = self.platform
        if platform is None:
            return
        match self.rng.randrange(4):
            case 0:
                self.platform = None
                with suppress(OrderError):  # the platform has already failed
                    self.me.stop(platform)
            case 1:
                self.me.move_all_to(platform)
            case 2:
                self.me.set_budget_of(platform, 1.0)
            case _:
                self.me.bid(platform, self.rng.choice(self.of.bids))

    def change_memory(self) -> None:
        """Change a bid, a bound or a size."""
        if self.rng.random() < 0.5:
            text = f"MEMORY={self.rng.choice([128, 4096, 100_000])}"
            self.me.ask("one.vm.resize", self.any_vm(), text, False)
            return
        name = self.rng.choice(["MERKAT_BID_MEMORY", "MERKAT_MIN_MEMORY", "MERKAT_MAX_MEMORY"])
        self.me.set(self.any_vm(), **{name: self.rng.choice(MEMORY)})

    def change_host(self) -> None:
        """Disable or enable a host, as its administrator."""
        hosts = list(self.me.arena.cloud.world.hosts.rows)
        self.me.arena.bench.raw("one.host.status", self.rng.choice(hosts), self.rng.choice([0, 1]))

    def sell(self) -> None:
        """Change the owner of a VM to a neighbour, or back to the tenant."""
        to = self.rng.choice([self.me.arena.ann, self.me.owner])
        self.me.arena.bench.raw("one.vm.chown", self.any_vm(), to, -1)

    def lock(self) -> None:
        """Lock or unlock a VM."""
        if self.rng.random() < 0.5:
            self.me.ask("one.vm.lock", self.any_vm(), self.rng.randrange(1, 5), True)
        else:
            self.me.ask("one.vm.unlock", self.any_vm())

    def fail(self) -> None:
        """Let the next attempt of a state fail, as for a missing image or a broken guest."""
        lcm = self.rng.choice(["PROLOG", "BOOT", "PROLOG*", "EPILOG*", "SAVE*", "MIGRATE"])
        self.me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=self.any_vm(), lcm=lcm, count=1))

    def refuse(self) -> None:
        """Let OpenNebula refuse to deploy a VM, once or always."""
        count = self.rng.choice([1, -1])
        refused = Fault(FaultKind.REFUSE, "one.vm.deploy", vm=self.any_vm(), count=count)
        self.me.arena.cloud.faults.add(refused)

    def kill(self) -> None:
        """Replace the daemon by a new one."""
        self.me.arena.start_daemon()
