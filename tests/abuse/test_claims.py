"""An insincere claim keeps no other platform from an empty cloud."""

from collections.abc import Callable

import pytest

from merkatd.market.price import PriceRule
from merkatd.protocol.platform_messages import Kinds
from tests.abuse.arena import Arena, Player
from tests.lengths import shorten
from tests.platforms.site import template

VM = """CPU="1"
VCPU="8"
MEMORY="512"
EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="64"]
"""


def patient(credits_: float, deadline: str, ideal_run: str, more: str = "") -> str:
    """Return a patient platform of one VM with all cores."""
    return template(
        top='name = "p"',
        controller='[controller]\nkind = "patient"',
        budget=f"[budget]\ncredits = {credits_}",
        slo=f'[slo]\ndeadline = "{deadline}"\nideal_run = "{ideal_run}"',
        cluster='[[cluster]]\nname = "nodes"\nleast = 1\ninitial = 1\nmost = 1\n'
        f'template = """\n{VM}{more}\n"""',
    )


def powered_off(me: Player, platform: int) -> None:
    """Power off the platform's VM."""
    for vm in me.vms_of(platform):
        me.act(vm, "poweroff-hard")


def of_no_use(me: Player, platform: int) -> None:
    """Cap the platform's VM to next to nothing, without a bid."""
    for vm in me.vms_of(platform):
        me.set(vm, MERKAT_MAX_CPU=1, MERKAT_BID_CPU=0)


def at_a_tiny_bid(me: Player, platform: int) -> None:
    """Lower the bid of the platform's VM to next to nothing."""
    for vm in me.vms_of(platform):
        me.set(vm, MERKAT_BID_CPU=0.01)


def as_it_is(_me: Player, _platform: int) -> None:
    """Leave the platform unchanged."""


@pytest.mark.parametrize(
    ("more", "does"),
    [
        ('SCHED_REQUIREMENTS="ID = 99"', as_it_is),
        ("", powered_off),
        ("", of_no_use),
        ("", at_a_tiny_bid),
    ],
    ids=["nowhere", "powered_off", "of_no_use", "at_a_tiny_bid"],
)
def test_another_platform_starts(more: str, does: Callable[[Player, int], None]) -> None:
    """It starts within some periods, although the first claims all cores at a high price."""
    arena = Arena(PriceRule.CLEARING, neighbours=0)
    arena.notes.offered = Kinds(("notes", "patient"), ("steps",))
    try:
        eve = Player(arena, "eve")
        arena._periods(1)
        text = patient(99_000, "3h", "170m", more)
        first = arena.take(eve.owner, text)
        arena._periods(3)
        does(eve, first)
        arena._periods(2)
        text = patient(2_000, "1h", "20m")
        second = arena.take(arena.ann, text)
        arena._periods(4)
        claim = arena.platform(first).claim_units
        state = arena.platform(second).state
    finally:
        arena.close()
    assert claim == 800.0
    assert state in {"starting", "running"}


def test_a_resubmitted_platform_claims_only_for_minutes() -> None:
    """Only an owner's first platforms get the grace period for the arrival of their VMs."""
    arena = Arena(PriceRule.CLEARING, neighbours=0)
    arena.notes.offered = Kinds(("notes", "patient"), ("steps",))
    try:
        eve = Player(arena, "eve")
        arena._periods(2)
        text = patient(2_000, "1h", "20m")
        nowhere = patient(90_000, "3h", "170m", 'SCHED_REQUIREMENTS="ID = 99"')
        last = arena.take(eve.owner, nowhere)
        arena._periods(1)
        second = arena.take(arena.ann, text)
        for _ in range(shorten(8, 5)):
            eve.stop(last)
            last = arena.take(eve.owner, nowhere)
            arena._periods(2)
        state = arena.platform(second).state
    finally:
        arena.close()
    assert state in {"starting", "running"}
