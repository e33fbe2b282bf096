"""Cooldowns: the time between two changes of a size, apart for growing and for shrinking."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from controllers.applications.cooldown import Cooldown
from tests.controllers.applications.batch_site import Site
from tests.controllers.test_best_effort import Market


def changes(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the periods in which a size changed, and the differences."""
    pairs = enumerate(pairwise(sizes))
    return [(period, later - before) for period, (before, later) in pairs if later != before]


def gaps(periods: Sequence[int]) -> list[int]:
    """Return the distances between periods."""
    return [later - before for before, later in pairwise(periods)]


@pytest.mark.parametrize("cooldown_s", [300.0, 600.0])
def test_a_batch_system_grows_again_only_after_its_cooldown(cooldown_s: float) -> None:
    """A period has 60 s. Without the cooldown it grows at once."""
    site = Site(waiting=[60] * 30, parameters={"grow_cooldown_s": cooldown_s})
    grown = changes([0, *(site.pass_a_period() for _ in range(50))])
    assert len(grown) > 2
    assert min(gaps([period for period, _ in grown])) * 60.0 >= cooldown_s
    free = Site(waiting=[60] * 30)
    assert min(gaps([at for at, _ in changes([free.pass_a_period() for _ in range(9)])])) == 1


def test_a_batch_system_releases_workers_only_after_its_cooldown() -> None:
    """Its growth waits for no other cooldown, and no job is lost."""
    site = Site(waiting=[2] * 8, parameters={"shrink_cooldown_s": 1_200.0})
    sizes = [0, *(site.pass_a_period() for _ in range(12))]
    grown = [period for period, by in changes(sizes) if by > 0]
    assert grown
    assert sizes[-1] == max(sizes)
    sizes += [site.pass_a_period() for _ in range(60)]
    shrunk = [period for period, by in changes(sizes) if by < 0]
    assert sizes[-1] == 0
    assert (shrunk[0] - grown[-1]) * 60.0 >= 1_200.0
    assert site.lost == 0


def test_a_drain_that_has_begun_ends_within_the_cooldown() -> None:
    """Two workers drain, and the head loses the order for one: the first release ends no drain."""
    site = Site(parameters={"shrink_cooldown_s": 36_000.0})
    site.workers = {2: [], 3: []}
    site.pass_a_period()
    assert site.drained == {2, 3}
    site.drained = {2}
    sizes = [site.pass_a_period() for _ in range(6)]
    assert sizes[0] == 1
    assert sizes[-1] == 0
    assert not any("state=resume" in command for command in site.heard)


def test_workers_that_cannot_be_paid_wait_for_no_cooldown() -> None:
    """The account is the limit."""
    site = Site(waiting=[80] * 200, balance=20_000.0, parameters={"shrink_cooldown_s": 86_400.0})
    for _ in range(20):
        many = site.pass_a_period()
    site.price = 0.05
    for _ in range(40):
        few = site.pass_a_period()
    assert few < many


def test_a_cooldown_survives_the_controllers_end() -> None:
    """It is in the stored memory."""
    site = Site(waiting=[60] * 30, parameters={"grow_cooldown_s": 600.0})
    sizes = []
    for _ in range(8):
        sizes.append(site.pass_a_period())
        site.begin_again()
    assert len({*sizes}) == 1


def test_best_effort_grows_and_shrinks_after_its_cooldowns() -> None:
    """It grows by one VM; with a smaller balance it shrinks."""
    parameters = {"grow_cooldown_s": 180.0, "shrink_cooldown_s": 600.0}
    market = Market(1e7, parameters=parameters)
    sizes = [market.size]
    for _ in range(12):
        market.pass_a_period()
        sizes.append(market.size)
    grown = [period for period, _ in changes(sizes)]
    assert len(grown) > 1
    assert min(gaps(grown)) == 3
    market.balance = 1.0
    for _ in range(20):
        market.pass_a_period()
        sizes.append(market.size)
    periods = [period for period, by in changes(sizes) if by < 0]
    assert periods
    assert periods[0] - max(period for period, by in changes(sizes) if by > 0) >= 10


def test_a_clock_that_was_set_back_ends_a_cooldown() -> None:
    """Else it would last for the difference."""
    cooldown = Cooldown.of({}, {"grow_cooldown_s": 60.0})
    cooldown.begin("workers", 1_000.0)
    assert not cooldown.may_grow("workers", 1_059.0)
    assert cooldown.may_grow("workers", 1_060.0)
    assert cooldown.may_grow("workers", 900.0)
    assert cooldown.may_grow("others", 1_001.0)
    assert cooldown.may_shrink("workers", 1_001.0)
