"""Wait until a few good periods have corrected the site."""

from tests.daemon.agreement import unsettled
from tests.daemon.harness import Site
from tests.daemon.processes import until

GOOD_PERIODS = 15
"""Enough to fail lost steps, to decide again, and to confirm the new steps."""


def settle(site: Site) -> None:
    """Wait until the site is settled, for a limited number of good periods, without tenants."""
    last = site.good_periods() + GOOD_PERIODS
    site.after_good_periods(2)

    def settled() -> bool:
        try:
            wrong = unsettled(site)
        except TimeoutError:  # a full machine; no request of this look changes anything
            return False
        assert not wrong or site.good_periods() < last, f"after {GOOD_PERIODS} periods: {wrong}"
        return not wrong

    until(settled, "settled")
