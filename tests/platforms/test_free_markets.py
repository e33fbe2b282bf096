"""Platforms in a market that charges nothing need no budget."""

from collections.abc import Iterator

import pytest

from merkatd.fleets.vm_template_text import TemplateError
from merkatd.placement.contract import Allocation, Charge
from tests.platforms.site import Site, template
from tests.platforms.test_declarations import JOB, MONITOR, NODES
from tests.platforms.test_finished_jobs import NONE, STEPS, readings
from tests.scheduler.scripted_strategy import scripted

ZERO = "[budget]\ncredits = 0"


@pytest.fixture
def free() -> Iterator[Site]:
    """Yield a frontend whose strategy states amounts and charges nothing."""
    with scripted(allocates=Allocation.OWN, charges=Charge.NONE):
        made = Site()
        yield made
        made.agree()
        made.close()


@pytest.mark.parametrize("budget", ["", ZERO])
def test_a_job_without_credits_runs_to_its_end(free: Site, budget: str) -> None:
    """It starts, is suspended and resumed by its tenant, and ends as done."""
    platform = free.submit(application=JOB, controller=NONE, cluster=NODES + MONITOR, budget=budget)
    free.until(platform, "running")
    free.periods(3)
    free.wait(free.manager.suspend(platform, "ann"))
    free.until(platform, "suspended")
    free.wait(free.manager.resume(platform, "ann"))
    free.until(platform, "running")
    free.periods(3)
    assert {free.state(vm) for vm in free.vms(platform)} == {"RUNNING"}
    free.notes.measured[platform] = readings(dict.fromkeys(free.vms(platform), STEPS))
    free.until(platform, "done")


def test_a_market_with_prices_needs_one(site: Site) -> None:
    """The error says where; a budget of nothing is used up at once."""
    with pytest.raises(TemplateError, match=r"budget: is missing; expected a table \[budget\]"):
        site.take(site.ann, template(budget=""))
    platform = site.submit(budget=ZERO)
    site.periods(5)
    assert site.platform(platform).state != "running"
