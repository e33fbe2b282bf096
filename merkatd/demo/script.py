"""The script: who comes when, with how much work, by when it must be done, and what for.

Times are minutes of the cloud's own time, so that at the demo's usual pace one of them is one
period and one second of the watcher's. The script goes on in rounds for as long as it is read:
everybody comes once in each, with an application a little different every time.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.demo.bidding import Character, rounded
from merkatd.demo.scale import SIMULATED, Scale

ROUND_MIN = 32.0
"""From the start of one round to the start of the next."""
USUAL_HOSTS = 4
"""For so many hosts the numbers of VMs below are meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
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
class Tenant:
    """A user of the cloud and the application that it comes with, again and again."""

    name: str
    character: Character
    errand: Errand
    """As it is on average, in a round that begins at 0."""


CAST = (
    Tenant(
        name="ana",
        character=Character.PATIENT,
        errand=Errand(arrival_min=0.0, vms=4, work=60.0, deadline_min=42.0, bid=3.0),
    ),
    Tenant(
        name="bo",
        character=Character.THRIFTY,
        errand=Errand(arrival_min=1.0, vms=4, work=45.0, deadline_min=34.0, bid=4.0),
    ),
    Tenant(
        name="cy",
        character=Character.URGENT,
        errand=Errand(arrival_min=8.0, vms=3, work=32.0, deadline_min=13.0, bid=8.0),
    ),
    Tenant(
        name="di",
        character=Character.RICH,
        errand=Errand(arrival_min=17.0, vms=4, work=36.0, deadline_min=18.0, bid=24.0),
    ),
    Tenant(
        name="ed",
        character=Character.LATE,
        errand=Errand(arrival_min=5.0, vms=4, work=42.0, deadline_min=27.0, bid=2.0),
    ),
    Tenant(
        name="flo",
        character=Character.URGENT,
        errand=Errand(arrival_min=24.0, vms=3, work=30.0, deadline_min=12.0, bid=6.0),
    ),
)


def errand(tenant: Tenant, number: int, seed: int, hosts: int, scale: Scale = SIMULATED) -> Errand:
    """The tenant's application in a round, the first being 0: the same for the same seed."""
    part = CAST.index(tenant)
    rng = np.random.default_rng([seed, number, part])
    usual = tenant.errand
    start_min = number * ROUND_MIN + usual.arrival_min
    return Errand(
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
