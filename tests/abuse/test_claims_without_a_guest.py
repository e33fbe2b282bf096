"""A VM without a guest keeps only the memory that it needs, or pays for more.

An owner can cause a long copy of disks or a failed boot.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.vm_states import Lcm
from merkatd.market.price import PriceRule
from tests.abuse.arena import Player
from tests.abuse.memory import FAIR_BID, HIGH, HOST_MIB, RESERVE, Hoarder, Memory, Moves
from tests.lengths import SOAK, shorten

CLAIM_MIB = 16_000
NEEDS = 0.25
"""The part of its size that a VM without a guest keeps (`floor_part`)."""
PERIODS = shorten(8, 3)


@pytest.fixture
def memory() -> Iterator[Memory]:
    """Return a host whose neighbours have bought all of its memory."""
    arena = Memory(PriceRule.CLEARING)
    arena.add_neighbours()
    arena.site.periods(3)
    yield arena
    arena.close()


def wait(periods: int) -> Moves:
    """Wait for this number of periods."""
    for _ in range(periods):
        yield


def fail_boot(memory: Memory, **attributes: object) -> int:
    """Create a VM that fails to boot, and give it these attributes afterwards."""
    eve = Hoarder(memory)
    vm = eve.vm(0.05, MEMORY=CLAIM_MIB)
    memory.site.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="BOOT*"))
    memory.site.periods(1)
    assert memory.site.state(vm) == "BOOT_FAILURE"
    text = "\n".join(f'{name}="{value}"' for name, value in attributes.items())
    memory.site.bench.raw("one.vm.update", vm, text, 1, session=eve.session)
    memory.site.periods(3)
    return vm


AT_RESERVE = CLAIM_MIB * RESERVE["memory"] * 1.1


@pytest.mark.parametrize("bid", [0.0, AT_RESERVE] if SOAK else [AT_RESERVE])
def test_a_failed_vm_claims_only_the_memory_that_its_bid_buys(memory: Memory, bid: float) -> None:
    """Without a bid, or at the reserve price, that is next to nothing."""
    fail_boot(memory, MERKAT_MIN_MEMORY=CLAIM_MIB, MERKAT_BID_MEMORY=bid)
    outcome = memory.play(wait(PERIODS), PERIODS)
    assert outcome.fair_held >= 0.99 * (HOST_MIB - NEEDS * CLAIM_MIB) * PERIODS, outcome


def test_a_failed_vm_claims_nothing_without_credits(memory: Memory) -> None:
    """The claim would only add to the owner's debt."""
    vm = fail_boot(memory)
    Player(memory.site, "eve", memory.eve).park(5.0)  # type: ignore[arg-type]
    Hoarder(memory).bid(vm, 5_000.0)
    text = f'MERKAT_MIN_MEMORY="{CLAIM_MIB}"'
    memory.site.bench.raw("one.vm.update", vm, text, 1, session=Hoarder(memory).session)
    memory.site.periods(2)
    outcome = memory.play(wait(PERIODS), PERIODS)
    assert outcome.fair_held >= 0.98 * (HOST_MIB - NEEDS * CLAIM_MIB) * PERIODS, outcome


def test_a_failed_vm_pays_for_its_claim(memory: Memory) -> None:
    """It pays the neighbours' price."""
    bid = 10 * FAIR_BID
    fail_boot(memory, MERKAT_MIN_MEMORY=CLAIM_MIB, MERKAT_BID_MEMORY=bid)
    outcome = memory.play(wait(PERIODS), PERIODS)
    lost = HOST_MIB * PERIODS - outcome.fair_held
    assert lost >= 0.5 * HOST_MIB * PERIODS
    assert outcome.paid / lost >= 0.95 * outcome.fair_paid / outcome.fair_held, outcome


def test_a_failed_vm_cancels_no_claim_of_its_neighbours(memory: Memory) -> None:
    """Its invalid claim does not raise the price of valid ones."""
    site = memory.site
    claims = memory.vm("bob", FAIR_BID, 64, MERKAT_MIN_MEMORY=4000)
    site.periods(3)
    fail_boot(memory, MERKAT_MIN_MEMORY=CLAIM_MIB, MERKAT_BID_MEMORY=0)
    vms = site.period().seen.snapshot.vms
    assert vms.floor[vms.id == claims, 1] >= (HOST_MIB - NEEDS * CLAIM_MIB) / 4 - 1


def test_a_claim_is_charged_during_the_copy_of_disks(memory: Memory) -> None:
    """The bid makes the claim valid, and it costs the neighbours' price."""
    world = memory.site.cloud.world
    delays = world.settings.delays
    slow = replace(delays, by_state={**delays.by_state, Lcm.PROLOG: 36_000.0})
    world.settings = replace(world.settings, delays=slow)
    vm = Hoarder(memory).vm(HIGH, MERKAT_MIN_MEMORY=8000)
    memory.site.periods(4)
    assert memory.site.state(vm) == "PROLOG"
    outcome = memory.play(wait(PERIODS), PERIODS)
    lost = HOST_MIB * PERIODS - outcome.fair_held
    assert lost >= 0.4 * HOST_MIB * PERIODS
    assert outcome.paid / lost >= 0.95 * outcome.fair_paid / outcome.fair_held, outcome


def test_a_failed_vm_without_a_claim_pays_the_reserve_price(memory: Memory) -> None:
    """The failure may be the cloud's fault."""
    fail_boot(memory)
    outcome = memory.play(wait(PERIODS), PERIODS)
    most = NEEDS * CLAIM_MIB * RESERVE["memory"] * PERIODS
    assert outcome.paid <= 1.01 * most, outcome
