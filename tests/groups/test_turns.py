"""Many new VMs of one user do not delay other users' VMs, and are created in portions."""

from collections.abc import Mapping

import pytest

from merkatd.cluster import Create, Terminate
from merkatd.fleets.vm_template_text import with_attributes
from merkatd.groups.group_orders import GroupError
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.terms.creation_turns import take_turns
from tests.groups.site import Site, template

SMALL = template(vcpus=1, memory=1)
PORTION = Rhythm(new_vms=10)


def make_create(owner: int, number: int) -> Create:
    """Return the creation of an owner's VM."""
    return Create(period=1, reason="", key=f"{owner}-{number}", template="", owner=owner)


def test_each_owner_gets_a_number_of_creations_a_period() -> None:
    """Owners alternate in order, and steps that end VMs come before creations."""
    end = Terminate(period=1, vm=7, reason="")
    asked = (
        [make_create(1, at) for at in range(5)] + [make_create(2, at) for at in range(2)] + [end]
    )
    steps = take_turns(asked, 3)
    assert steps[0] is end
    assert [step.key for step in steps if isinstance(step, Create)] == [
        "1-0",
        "2-0",
        "1-1",
        "2-1",
        "1-2",
    ]


def test_a_large_group_is_created_in_portions() -> None:
    """Another user's VM is created with the first portion."""
    site = Site(rhythm=PORTION)
    try:
        eves = site.create(1.0, 15, owner=site.eve, template=SMALL)
        bobs = site.create(1.0, 1, owner=site.bob)
        site.period()
        site.clock.advance(60)
        for part in (10, 15):
            site.period()
            site.clock.advance(60)
            there = [vm for vm in site.members(eves) if vm.vm is not None]
            assert len(there) == part
            assert all(vm.vm is not None for vm in site.members(bobs))
    finally:
        site.close()


def test_a_period_makes_only_the_texts_that_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups of a user together get `new_vms` texts and rows in a period."""
    make_create: list[str] = []

    def counted(text: str, attributes: Mapping[str, str]) -> str:
        make_create.append(text)
        return with_attributes(text, attributes)

    monkeypatch.setattr("merkatd.groups.group_fleet.with_attributes", counted)
    site = Site(rhythm=PORTION)
    try:
        first = site.create(1.0, 15, owner=site.eve, template=SMALL)
        second = site.create(1.0, 10, owner=site.eve, template=SMALL)
        counts = []
        for _ in range(4):
            make_create.clear()
            site.period()
            site.clock.advance(60)
            counts.append((len(site.members(first)), len(site.members(second)), len(make_create)))
        assert counts == [(10, 0, 10), (15, 5, 10), (15, 10, 5), (15, 10, 0)]
    finally:
        site.close()


def test_all_groups_of_a_user_have_a_common_limit() -> None:
    """A thousand groups of ten thousand VMs would be ten million rows."""
    site = Site()
    try:
        site.create(1.0, 6000, template=SMALL)
        with pytest.raises(GroupError, match="at most 10000 VMs in all; the others have 6000"):
            site.create(1.0, 6000, template=SMALL)
        other = site.create(1.0, 10, template=SMALL)
        with pytest.raises(GroupError, match="the others have 6000"):
            site.edit(other, nvm=4001)
        assert site.edit(other, nvm=4000).nvm == 4000
    finally:
        site.close()


def test_a_transferred_group_counts_for_its_new_owner() -> None:
    """A transfer cannot exceed the new owner's limit."""
    site = Site()
    try:
        mine = site.create(1.0, 6000, owner=site.eve, template=SMALL)
        site.create(1.0, 6000, owner=site.bob, template=SMALL)
        with pytest.raises(GroupError, match="the others have 6000"):
            site.wait(site.keeper.change(mine, owner=site.bob))
        small = site.create(1.0, 4000, owner=site.eve, template=SMALL)
        assert site.wait(site.keeper.change(small, owner=site.bob)).owner == site.bob
        assert site.wait(site.keeper.change(mine, name="same", owner=site.eve)).name == "same"
    finally:
        site.close()
