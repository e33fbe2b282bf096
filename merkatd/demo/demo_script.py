"""The script of the demo: arrivals and bids of tenants, sizes of hosts and VMs.

Times are minutes of the cloud's time. At the demo's default speed a minute is a period and a real
second. The script repeats in rounds. In each round each tenant arrives once, with a slightly
different application.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from merkatd.demo.demo_options import SIMULATED, DemoScale

MOST_TIMES = 12.0
"""The largest bid of a tenant, as a multiple of its first bid."""
LEAST_PART = 0.25
"""The smallest bid of a tenant, as a part of its first bid."""


class Character(StrEnum):
    """The bidding behaviour of a tenant."""

    PATIENT = "patient"
    """Bids little, and never changes its bid."""
    THRIFTY = "thrifty"
    """Lowers its bid when it is ahead, raises it when it is behind."""
    URGENT = "urgent"
    """Raises its bid much as soon as it is behind."""
    RICH = "rich"
    """Bids much from the start."""
    LATE = "late"
    """Bids almost nothing until the deadline is near, then doubles its bid while it is behind."""
    WHOLE = "whole"
    """Bids nothing: a limit order runs all its VMs at full size, or none of them."""


@dataclass(frozen=True, slots=True)
class BidPace:
    """The progress of an application."""

    done: float
    """The part of the work that is done."""
    passed: float
    """The part of the time to the deadline that has passed."""

    @property
    def behind(self) -> bool:
        """Return whether the application would miss its deadline at its average speed."""
        return self.done < self.passed - 0.03


def next_bid(character: Character, first: float, bid: float, pace: BidPace) -> float:
    """Return the next bid."""
    wanted = _RULES[character](bid, pace)
    return rounded(min(max(wanted, first * LEAST_PART), first * MOST_TIMES))


def rounded(bid: float) -> float:
    """Return the bid rounded to two digits, as a person would write it."""
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
        Character.WHOLE: _unmoved,
    }
)


ROUND_MIN = 32.0
"""The time from the start of a round to the start of the next, in minutes."""
USUAL_HOSTS = 4
"""The number of hosts for which the numbers of VMs below are meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedWork:
    """An application: equal VMs, which are done when each of them has done its work."""

    arrival_min: float
    vms: int
    work: float
    """The work of each VM in core-minutes."""
    deadline_min: float
    """The time from the arrival to the deadline, in minutes."""
    bid: float
    """The first bid for CPU, in credits per VM and period; of a `WHOLE` tenant the limit of its
    order, in credits a period for all VMs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTenant:
    """A user of the cloud, and the application with which it arrives in each round."""

    name: str
    character: Character
    errand: ScriptedWork
    """The average application, in a round that starts at 0."""


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
    ScriptedTenant(
        name="gus",
        character=Character.WHOLE,
        errand=ScriptedWork(arrival_min=2.0, vms=4, work=56.0, deadline_min=40.0, bid=40.0),
    ),
)


def errand(
    tenant: ScriptedTenant, number: int, seed: int, hosts: int, scale: DemoScale = SIMULATED
) -> ScriptedWork:
    """Return the tenant's application in round `number` (from 0); the same seed gives the same."""
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


def vm_template(name: str, work: float, bid: float, scale: DemoScale = SIMULATED) -> str:
    """Return the template of a VM, for one.vm.allocate."""
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


def _simulated(work: float, scale: DemoScale) -> str:
    """Return the behaviour of a simulated guest, for the embedded cloud."""
    use_mib = round(scale.memory_mib * scale.memory_use_part)
    seconds = work * scale.minute_s
    return f'EMBEDDED=[WORK="{seconds:g}",MEMORY_USE="{use_mib}",ON_FINISH="poweroff"]'


def bid_template(bid: float) -> str:
    """Return the template of a new bid, for one.vm.update; memory gets a quarter of CPU's bid."""
    return f'MERKAT_BID_CPU="{bid:g}"\nMERKAT_BID_MEMORY="{bid / 4:g}"'
