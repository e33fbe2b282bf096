"""Changes of groups start periods early; refused creations wait for an interval."""

from typing import Any

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.groups.group_orders import Edit
from merkatd.service.base.callers import LOCAL
from merkatd.service.groups import GroupRequest
from tests.groups.site import Site, groups_at, template


def run(site: Site, seconds: float) -> None:
    """Let time pass."""
    for _ in range(round(seconds * 2)):
        site.clock.advance(0.5)


def test_changes_of_groups_start_periods(site: Site) -> None:
    """A name and permissions don't matter to a period."""
    starts: list[float] = []
    site.scheduler.listen(lambda told: starts.append(told.seen.started_s))
    site.scheduler.start()
    run(site, 5.0)
    service = groups_at(site)
    asked = GroupRequest(spending_rate=1.0, nvm=2, template=template())

    def began(order: Any) -> int:
        before = len(starts)
        result = site.wait(order)
        run(site, 1.6)
        count = len(starts) - before
        run(site, 20.0)
        began.result = result  # type: ignore[attr-defined]
        return count

    assert began(service.create(LOCAL, asked)) == 1
    group = began.result.id  # type: ignore[attr-defined]
    assert len(site.vms(group)) + len(site.members(group)) >= 2
    assert began(service.edit(LOCAL, group, Edit(spending_rate=2.0))) == 1
    assert began(service.rename(LOCAL, group, "other")) == 0
    assert began(service.set_permissions(LOCAL, group, "600")) == 0
    assert began(service.set_owner(LOCAL, group, site.bob, None)) == 1
    assert began(service.delete(LOCAL, group)) == 1
    site.result(site.stopped())


@pytest.mark.parametrize("each_s", [60.0, 5.0])
def test_a_refused_creation_is_given_up_after_three_intervals(site: Site, each_s: float) -> None:
    """A quota that is exceeded for a moment costs no VM, however many periods begin."""
    site.periods(1)
    site.cloud.faults.add(
        Fault(FaultKind.REFUSE, "one.vm.allocate", count=-1, code=2048, text="full")
    )
    group = site.create(1.0, nvm=1)
    began_s = site.clock.seconds()
    site.periods(1, each_s)
    while site.members(group):
        site.periods(1, each_s)
        assert site.clock.seconds() < began_s + 600.0
    stored = site.group(group)
    assert stored is not None
    assert "could not be made" in stored.why
    assert 110.0 <= site.clock.seconds() - began_s <= 250.0
    site.cloud.faults.clear()
