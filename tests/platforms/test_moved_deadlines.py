"""A new deadline of a platform has the bounds that a template's deadline has."""

import pytest

from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.tenant_orders import OrderError, Update
from tests.platforms.site import Site


@pytest.mark.parametrize("not_before", ['"2h"', "1970-01-12T15:46:40Z"])
def test_a_deadline_is_not_moved_before_the_start(site: Site, not_before: str) -> None:
    """A waiting platform keeps its old one; later ones are accepted."""
    platform = site.submit(
        application="[job]",
        start=f"[start]\nnot_before = {not_before}",
        slo='[slo]\ndeadline = "4h"',
    )
    before = site.platform(platform).deadline_s
    assert before is not None
    with pytest.raises(OrderError, match=r"deadline: must be after start\.not_before"):
        site.update(platform, Update(deadline=TemplateTime(after_s=3600.0)))
    assert site.platform(platform).deadline_s == before
    site.update(platform, Update(deadline=TemplateTime(after_s=3 * 3600.0)))
    assert site.platform(platform).deadline_s == before - 3600.0


def test_a_deadline_is_not_moved_before_the_goal(site: Site) -> None:
    """The goal counts from the submission; a deadline at the goal is accepted, a job ends then."""
    platform = site.submit(application='[job]\ngoal = "2h"', slo='[slo]\ndeadline = "4h"')
    submitted_s = site.platform(platform).submitted_s
    site.until(platform, "running")
    before = site.platform(platform).deadline_s
    at_goal = TemplateTime(at_s=submitted_s + 7200.0)
    for early in (TemplateTime(at_s=submitted_s + 7199.0), TemplateTime(after_s=3600.0)):
        with pytest.raises(OrderError, match=r"^deadline: must be at least job\.goal, 1970-.*got"):
            site.update(platform, Update(deadline=early))
    assert site.platform(platform).deadline_s == before
    site.update(platform, Update(deadline=at_goal))
    assert site.platform(platform).deadline_s == submitted_s + 7200.0


def test_a_deadline_moves_freely_without_a_goal(site: Site) -> None:
    """The deadline is the job's goal then."""
    platform = site.submit(application="[job]", slo='[slo]\ndeadline = "4h"')
    site.update(platform, Update(deadline=TemplateTime(after_s=600.0)))
    stored = site.platform(platform)
    assert stored.deadline_s is not None
    assert stored.deadline_s < stored.submitted_s + 700.0
