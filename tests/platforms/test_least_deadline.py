"""An impossible deadline is answered with the least possible one."""

import re
from typing import Any

import pytest

from merkatd.service.base.callers import LOCAL
from merkatd.service.platforms import Update, deadline_of
from tests.platforms.site import Site, platforms_at, template


class TestLeastDeadline:
    """Section 3.1.1: an impossible deadline is answered with the least possible one."""

    @pytest.fixture
    def expensive(self, site: Site) -> Site:
        """Return a cloud whose prices lengthen the work below."""
        for _ in range(4):
            site.vm(300.0)
        site.periods(3)
        return site

    def _least(self, row: Any) -> str:
        match = re.search(r"the least deadline that could be met is (\S+Z)", row.takes)
        assert match is not None, row.takes
        return match[1]

    def test_the_least_deadline_is_exact_at_submission_and_change(self, expensive: Site) -> None:
        """It can be met, and ten minutes less cannot."""
        asked = platforms_at(expensive)
        text = template(
            slo='[slo]\ndeadline = "60m"\nideal_run = "50m"',
            budget="[budget]\ncredits = 3000\nreplenishment = 1500",
        )
        row = expensive.wait(asked.submit(LOCAL, expensive.ann, text))
        assert row.outlook == "wait"
        least = self._least(row)
        row = expensive.wait(asked.update(LOCAL, row.id, Update(deadline=deadline_of(least))))
        assert row.outlook == "start"
        earlier_s = (row.deadline_s - expensive.clock.seconds() - 600) / 60
        row = expensive.wait(
            asked.update(LOCAL, row.id, Update(deadline=deadline_of(f"{earlier_s:.3f}m")))
        )
        assert row.outlook == "wait"
        assert self._least(row) == least

    def test_the_least_deadline_is_known_while_it_runs(self, expensive: Site) -> None:
        """It leaves at least the time for the remaining work at full size."""
        asked = platforms_at(expensive)
        platform = expensive.submit(
            slo='[slo]\ndeadline = "9h"\nideal_run = "2h"', budget="[budget]\ncredits = 60000"
        )
        expensive.until(platform, "running")
        row = expensive.wait(asked.update(LOCAL, platform, Update(deadline=deadline_of("30m"))))
        assert row.outlook == "cancel"
        assert "are left until its deadline, and the work takes 2 h" in row.takes
        row = expensive.wait(
            asked.update(LOCAL, platform, Update(deadline=deadline_of(self._least(row))))
        )
        assert row.outlook == "start"
