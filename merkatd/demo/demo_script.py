"""Who comes when, how they bid, how large hosts and VMs are.

Times are minutes of the cloud's own time, so that at the demo's usual pace one of them is one
period and one second of the watcher's. The script goes on in rounds for as long as it is read:
everybody comes once in each, with an application a little different every time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from merkatd.demo.guest_domains import GuestKind

MOST_TIMES = 12.0
"""So many times its first bid a tenant bids at most,"""
LEAST_PART = 0.25
"""and this part of it at least."""


class Character(StrEnum):
    """What a tenant is like."""

    PATIENT = "patient"
    """Bids little, and never anything else."""
    THRIFTY = "thrifty"
    """Bids less as soon as it is ahead, more as soon as it is not."""
    URGENT = "urgent"
    """Raises its bid the moment it falls behind."""
    RICH = "rich"
    """Bids a lot from the first."""
    LATE = "late"
    """Bids almost nothing until the deadline is near, then whatever it takes."""


@dataclass(frozen=True, slots=True)
class BidPace:
    """How an application stands."""

    done: float
    """The part of the work that is done,"""
    passed: float
    """and the part of the time that has passed."""

    @property
    def behind(self) -> bool:
        """Whether going on like this would miss the deadline."""
        return self.done < self.passed - 0.03


def next_bid(character: Character, first: float, bid: float, pace: BidPace) -> float:
    """What to bid from now on."""
    wanted = _RULES[character](bid, pace)
    return rounded(min(max(wanted, first * LEAST_PART), first * MOST_TIMES))


def rounded(bid: float) -> float:
    """The bid in the two digits that a person would write."""
    return float(f"{bid:.2g}")


def _unmoved(bid: float, _pace: BidPace) -> float:
    return bid


def _thrifty(bid: float, pace: BidPace) -> float:
    if pace.behind:
        return bid * 1.3
    return bid * 0.8 if pace.done > pace.passed + 0.08 else bid


def _urgent(bid: float, pace: BidPace) -> float:
    if pace.behind:
        return bid * 1.6
    return bid * 0.9 if pace.done > pace.passed + 0.25 else bid


def _late(bid: float, pace: BidPace) -> float:
    return bid * 2.0 if pace.behind and pace.passed > 0.55 else bid


_RULES: Mapping[Character, Callable[[float, BidPace], float]] = MappingProxyType(
    {
        Character.PATIENT: _unmoved,
        Character.THRIFTY: _thrifty,
        Character.URGENT: _urgent,
        Character.RICH: _unmoved,
        Character.LATE: _late,
    }
)


_USUAL_CORES = 8
_REAL_MEMORY_MIB = 2048
"""Real guests of the demo use next to nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The script is written for simulated hosts of eight cores; others follow in proportion."""

    host_cores: int = _USUAL_CORES
    host_memory_mib: int = 16_384
    memory_use_part: float = 0.375
    """What a simulated guest uses of its memory."""
    minute_s: float = 60.0
    """Seconds of the cloud's time in a minute of the script."""
    real: GuestKind | None = None
    """What real guests are made of; None where they are simulated."""

    @property
    def work_part(self) -> float:
        """How much of the script's work there is to do."""
        return self.host_cores / _USUAL_CORES

    @property
    def vcpus(self) -> int:
        """Of each VM: half a host."""
        return max(1, self.host_cores // 2)

    @property
    def memory_mib(self) -> int:
        """Of each VM: a quarter of a host; an eighth where nobody can take it from them."""
        return self.host_memory_mib // (4 if self.real is None else 8)


SIMULATED = Scale()


def of_this_machine(kind: GuestKind, cores: int, minute_s: float) -> Scale:
    """For real guests on the machine that the demo runs on, whose time can't be compressed."""
    return Scale(host_cores=cores, host_memory_mib=_REAL_MEMORY_MIB, minute_s=minute_s, real=kind)


ROUND_MIN = 32.0
"""From the start of one round to the start of the next."""
USUAL_HOSTS = 4
"""For so many hosts the numbers of VMs below are meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedWork:
    """One application: some equal VMs that are of use once all of them have done their work."""

    arrival_min: float
    vms: int
    work: float
    """Core-minutes of each VM."""
    deadline_min: float
    """After the arrival."""
    bid: float
    """Credits per VM and period for CPU, at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTenant:
    """A user of the cloud and the application that it comes with, again and again."""

    name: str
    character: Character
    errand: ScriptedWork
    """As it is on average, in a round that begins at 0."""


CAST = (
    ScriptedTenant(
        name="ana",
        character=Character.PATIENT,
        errand=ScriptedWork(arrival_min=0.0, vms=4, work=60.0, deadline_min=42.0, bid=3.0),
    ),
    ScriptedTenant(
        name="bo",
        character=Character.THRIFTY,
        errand=ScriptedWork(arrival_min=1.0, vms=4, work=45.0, deadline_min=34.0, bid=4.0),
    ),
    ScriptedTenant(
        name="cy",
        character=Character.URGENT,
        errand=ScriptedWork(arrival_min=8.0, vms=3, work=32.0, deadline_min=13.0, bid=8.0),
    ),
    ScriptedTenant(
        name="di",
        character=Character.RICH,
        errand=ScriptedWork(arrival_min=17.0, vms=4, work=36.0, deadline_min=18.0, bid=24.0),
    ),
    ScriptedTenant(
        name="ed",
        character=Character.LATE,
        errand=ScriptedWork(arrival_min=5.0, vms=4, work=42.0, deadline_min=27.0, bid=2.0),
    ),
    ScriptedTenant(
        name="flo",
        character=Character.URGENT,
        errand=ScriptedWork(arrival_min=24.0, vms=3, work=30.0, deadline_min=12.0, bid=6.0),
    ),
)


def errand(
    tenant: ScriptedTenant, number: int, seed: int, hosts: int, scale: Scale = SIMULATED
) -> ScriptedWork:
    """The tenant's application in a round, the first being 0: the same for the same seed."""
    part = CAST.index(tenant)
    rng = np.random.default_rng([seed, number, part])
    usual = tenant.errand
    start_min = number * ROUND_MIN + usual.arrival_min
    return ScriptedWork(
        arrival_min=round(start_min + float(rng.uniform(0.0, 1.5)), 2),
        vms=max(1, round(usual.vms * hosts / USUAL_HOSTS)),
        work=round(usual.work * scale.work_part * float(rng.uniform(0.9, 1.1)), 1),
        deadline_min=usual.deadline_min,
        bid=rounded(usual.bid * float(rng.uniform(0.85, 1.15))),
    )


def vm_template(name: str, work: float, bid: float, scale: Scale = SIMULATED) -> str:
    """What a tenant gives to one.vm.allocate for one of its VMs."""
    return "\n".join(
        (
            f'NAME="{name}"',
            'CPU="1"',
            f'VCPU="{scale.vcpus}"',
            f'MEMORY="{scale.memory_mib}"',
            bid_template(bid),
            *([_simulated(work, scale)] if scale.real is None else []),
        )
    )


def _simulated(work: float, scale: Scale) -> str:
    """What a simulated guest is told to do; a real one does it."""
    use_mib = round(scale.memory_mib * scale.memory_use_part)
    seconds = work * scale.minute_s
    return f'EMBEDDED=[WORK="{seconds:g}",MEMORY_USE="{use_mib}",ON_FINISH="poweroff"]'


def bid_template(bid: float) -> str:
    """What a tenant gives to one.vm.update to bid anew: memory is worth a quarter of CPU to it."""
    return f'MERKAT_BID_CPU="{bid:g}"\nMERKAT_BID_MEMORY="{bid / 4:g}"'
