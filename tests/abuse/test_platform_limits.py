"""Only a platform that runs and pays keeps others out, whatever it states."""

from collections.abc import Callable

import pytest

from merkatd.database.ledger import account_store
from merkatd.database.scheduler import limit_order_store
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


def as_it_is(_me: Player, _platform: int) -> None:
    """Leave the platform unchanged."""


@pytest.mark.parametrize(
    ("more", "does"),
    [
        ('SCHED_REQUIREMENTS="ID = 99"', as_it_is),
        ("", powered_off),
    ],
    ids=["nowhere", "powered_off"],
)
def test_another_platform_starts(more: str, does: Callable[[Player, int], None]) -> None:
    """It runs within some periods, although the first would pay a high price for all cores."""
    arena = Arena(PriceRule.CLEARING, neighbours=0)
    arena.notes.offered = Kinds(("notes", "patient"), ("steps",))
    try:
        eve = Player(arena, "eve")
        arena._periods(1)
        text = patient(99_000, "3h", "170m", more)
        first = arena.take(eve.owner, text)
        arena._periods(5)
        does(eve, first)
        arena._periods(2)
        text = patient(2_000, "1h", "20m")
        second = arena.take(arena.ann, text)
        arena._periods(6)
        state = arena.platform(second).state
    finally:
        arena.close()
    assert state == "running"


def test_a_platform_that_keeps_another_out_pays_its_limit() -> None:
    """With a hundred times the credits it pays no less than the platform that waits would."""
    arena = Arena(PriceRule.CLEARING, neighbours=0)
    arena.notes.offered = Kinds(("notes", "patient"), ("steps",))
    try:
        eve = Player(arena, "eve")
        arena._periods(1)
        first = arena.take(eve.owner, patient(90_000, "3h", "170m"))
        arena._periods(5)
        second = arena.take(arena.ann, patient(2_000, "1h", "20m"))
        arena._periods(4)
        paid, due = [], []
        for _ in range(shorten(10, 4)):
            orders = arena.read(limit_order_store.of_platforms)
            due.append(orders[second].limit)
            before = _balance(arena, first)
            arena._periods(1)
            paid.append(before - _balance(arena, first))
        states = [arena.platform(one).state for one in (first, second)]
    finally:
        arena.close()
    assert states == ["running", "queued"]
    assert sum(paid) > 0.9 * sum(due)
    assert sum(due) > 10.0


def _balance(arena: Arena, platform: int) -> float:
    account = arena.platform(platform).account
    assert account is not None
    row = arena.read(lambda connection: account_store.get(connection, [account]))[account]
    return float(row.balance) / 1e6


def test_platforms_that_run_nowhere_keep_no_others_out() -> None:
    """Neither does one after the other."""
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
    assert state == "running"
