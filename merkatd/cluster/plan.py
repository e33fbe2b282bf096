"""Plan and Decision: the steps with their reasons, and which must come before which.

A step names hosts and VMs by OpenNebula's ids, so that it means the same in the plan, the
journal and on the wire. Its identity is a hash of period, kind and VM: the same decision
made twice gives the same steps.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ClassVar, TypeVar

from merkatd.cluster.columns import Floats, read_only


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do to one VM."""

    kind: ClassVar[str]
    period: int
    vm: int
    reason: str
    after: tuple[str, ...] = ()
    """The steps that must be confirmed before this one may be sent."""

    @property
    def id(self) -> str:
        """The same for the same period, kind and VM, whoever computes it."""
        return step_id(self.period, self.kind, self.subject)

    @property
    def subject(self) -> str:
        """What the step acts on, in words that survive a restart."""
        return str(self.vm)


def step_id(period: int, kind: str, subject: str | int) -> str:
    """The identity of the step of this kind on this subject in this period."""
    return blake2b(f"{period}/{kind}/{subject}".encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Step):
    """Make a VM that does not exist yet; `key` finds it again after a crash."""

    kind: ClassVar[str] = "create"
    vm: int = -1
    key: str
    template: str
    owner: int

    @property
    def subject(self) -> str:
        """A VM that has no id yet is known by its key."""
        return self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploy(Step):
    """Start a pending VM on a host."""

    kind: ClassVar[str] = "deploy"
    host: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrate(Step):
    """Move a running VM to another host."""

    kind: ClassVar[str] = "migrate"
    source: int
    host: int
    gain: float = 0.0
    """What the move was worth when it was chosen, in the strategy's own objective."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend(Step):
    """Save a running VM and stop it where it is."""

    kind: ClassVar[str] = "suspend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Step):
    """Continue a suspended or powered-off VM."""

    kind: ClassVar[str] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Step):
    """Save a VM, or undeploy one that is off, and give its host back."""

    kind: ClassVar[str] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate(Step):
    """End a VM for good."""

    kind: ClassVar[str] = "terminate"
    hard: bool = False
    """Its guest is not asked to end in order: it was, and goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Step):
    """Give a VM's processors a hard limit and a weight against its neighbours."""

    kind: ClassVar[str] = "limit"
    vcpu_quota_us: int | None
    """Per virtual CPU and period of `quota_period_us`; None leaves it unlimited."""
    global_quota_us: int | None
    """The same for the whole VM, where its virtual CPUs are pinned."""
    quota_period_us: int
    shares: int
    turn: int = 0
    """How often the VM began to run anew in the period before this step."""

    @property
    def subject(self) -> str:
        """Each start in a period has a step of its own."""
        return f"{self.vm}/{self.turn}" if self.turn else str(self.vm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(Step):
    """Bind each virtual CPU to cores of the host; with no cores at all, free the VM's pins."""

    kind: ClassVar[str] = "pin"
    cores: tuple[tuple[int, ...], ...]

    @property
    def subject(self) -> str:
        """Before a migration pins are freed, after it they are set again: two steps of one VM."""
        return str(self.vm) if any(self.cores) else f"{self.vm}/free"


@dataclass(frozen=True, slots=True, kw_only=True)
class Balloon(Step):
    """Set how much memory a VM may hold."""

    kind: ClassVar[str] = "balloon"
    memory_mib: int
    unpaid: bool = False
    """The VM gives back what it does not pay for, also where its guest uses it."""
    turn: int = 0
    """How often the VM began to run anew in the period before this step."""

    @property
    def subject(self) -> str:
        """Each start in a period has a step of its own."""
        return f"{self.vm}/{self.turn}" if self.turn else str(self.vm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(Step):
    """Limit what a VM sends, receives, reads and writes; None leaves a limit as it is."""

    kind: ClassVar[str] = "throttle"
    network_kb_s: int | None = None
    """All its interfaces together, each way; in units of 1,000 bytes."""
    disk_kib_s: int | None = None
    """All its disks together, reading and writing."""
    turn: int = 0
    """How often the VM began to run anew in the period before this step."""

    @property
    def subject(self) -> str:
        """Each start in a period has a step of its own."""
        return f"{self.vm}/{self.turn}" if self.turn else str(self.vm)


OnHost = Limit | Pin | Balloon | Throttle
"""What a hypervisor is told, and answers at once."""


Kind = TypeVar("Kind", bound=Step)


class CyclicPlanError(ValueError):
    """Steps that wait for each other can never start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order in which they can be carried out."""

    steps: tuple[Step, ...] = ()

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """The steps of one kind, in order."""
        return tuple(step for step in self.steps if isinstance(step, kind))

    @classmethod
    def ordered(cls, steps: list[Step]) -> "Plan":
        """The plan with each step behind all that it comes after, else in the order given.

        A step named in `after` that is not among these steps belongs to somebody else and
        holds nothing up here. Raises CyclicPlanError where steps wait for each other.
        """
        present = {step.id: step for step in steps}
        if len(present) != len(steps):
            raise ValueError("a plan holds at most one step of a kind for each VM")
        waiting = {step.id: [e for e in step.after if e in present] for step in steps}
        followers: dict[str, list[str]] = {}
        for step_id, earlier in waiting.items():
            for one in earlier:
                followers.setdefault(one, []).append(step_id)
        blockers = {step_id: len(earlier) for step_id, earlier in waiting.items()}
        ready = [step_id for step_id, count in blockers.items() if count == 0]
        for step_id in ready:
            for follower in followers.get(step_id, []):
                blockers[follower] -= 1
                if blockers[follower] == 0:
                    ready.append(follower)
        if len(ready) != len(steps):
            stuck = sorted(str(present[s].vm) for s, count in blockers.items() if count)
            raise CyclicPlanError(f"the steps of VMs {', '.join(stuck)} wait for each other")
        return cls(tuple(present[step_id] for step_id in ready))


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The steps to take, and what everybody gets and pays once they are taken."""

    plan: Plan
    allocations: Floats
    """[vms, resources]: what each VM gets on the host that the plan gives it. As long as its
    migration is not begun, a VM gets of all but memory what it has on the host where it is."""
    prices: Floats
    """[markets, resources]: credits per unit and period; infinite where no price clears."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """By VM id: why a VM stays pending, or why what was needed for it can't be done."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """The strategy's own, serialisable, handed back to it in the next period."""

    failed: Mapping[str, str] = field(default_factory=dict)
    """By market: how its strategy failed. Its VMs stay where they are."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "allocations", read_only(self.allocations))
        object.__setattr__(self, "prices", read_only(self.prices))
