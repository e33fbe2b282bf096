"""Steps: what can be done to one VM, each a value with its reason in words.

A step names hosts and VMs by OpenNebula's ids, so that it means the same in the plan, the
journal and on the wire. Its identity is a hash of period, kind and VM: the same decision
made twice gives the same steps.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import ClassVar


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
