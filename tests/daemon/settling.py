"""Waiting for what a few good periods put right."""

from tests.daemon.agreement import unsettled
from tests.daemon.harness import Site
from tests.daemon.processes import until

GOOD_PERIODS = 15
"""So many are enough to give up what was lost, to decide anew and to see it done."""


def settle(site: Site) -> None:
    """Wait until nothing is under way or stuck, for some good periods at most; tenants rest."""
    last = site.good_periods() + GOOD_PERIODS
    site.after_good_periods(2)

    def settled() -> bool:
        wrong = unsettled(site)
        assert not wrong or site.good_periods() < last, f"after {GOOD_PERIODS} periods: {wrong}"
        return not wrong

    until(settled, "settled")
