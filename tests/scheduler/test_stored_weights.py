"""The weights of goods among limit orders, from one decision to the next."""

from typing import Any

import pytest

from merkatd.database.scheduler import price_store
from tests.scheduler.test_ordered_vms import Site


def weights_of(*, is_killed: bool) -> Any:
    """Return the columns that are stored after some periods with two orders."""
    site = Site()
    site.state_order(site.vms("ann", 2), 3.0)
    site.state_order(site.vms("bob"), 2.0)
    for _ in range(3):
        site.periods(2)
        if is_killed:
            site.start_daemon()
    site.period()
    site.clock.advance(2.0)
    site.period()
    newest: int = site.read(price_store.newest)
    arrays = site.read(lambda connection: price_store.load_allocations(connection, newest))
    site.close()
    return {name: arrays[name].tolist() for name in ("goods_weights", "weights_age_s")}


def test_a_daemon_that_starts_anew_goes_on_with_the_same_weights() -> None:
    """Early periods count by their time."""
    before = weights_of(is_killed=False)
    assert weights_of(is_killed=True) == before
    assert before["weights_age_s"] == pytest.approx([6 * 60 + 2], abs=15)
