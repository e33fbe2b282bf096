"""VMs of groups that an administrator gives to another user."""

from tests.groups.site import CREDITS, Site


def test_a_given_vm_leaves_its_group(site: Site) -> None:
    """The group's owner can't end it any more, and sets no rate that another user pays."""
    group = site.create(60.0, 2)
    site.periods(4)
    first, second = site.vms(group)
    site.bench.ok("one.vm.chown", first, site.bob, -1)
    site.edit(group, spending_rate=1e6)
    site.edit(group, ending=[first])
    site.periods(3)
    row = site.group(group)
    assert row is not None
    assert (row.nvm, site.vms(group)) == (1, [second])
    site.delete(group)
    site.periods(4)
    assert site.alive() == [first]
    assert site.balances()[site.bob] > CREDITS - 600


def test_a_group_says_which_vm_was_given_away(site: Site) -> None:
    """It goes on with one VM fewer, like after a VM that ended by itself."""
    group = site.create(60.0, 2)
    site.periods(4)
    first, second = site.vms(group)
    site.bench.ok("one.vm.chown", first, site.bob, -1)
    site.periods(2)
    row = site.group(group)
    assert row is not None
    assert (row.nvm, row.why) == (1, f"VM {first} was given to another user")
    assert site.alive() == [first, second]


def test_vms_follow_their_group_to_its_new_owner(site: Site) -> None:
    """An administrator gives away the group, and then its VMs."""
    group = site.create(60.0, 2)
    site.periods(4)
    vms = site.vms(group)
    site.wait(site.keeper.change(group, owner=site.bob))
    for vm in vms:
        site.bench.ok("one.vm.chown", vm, site.bob, -1)
    site.periods(2)
    assert site.vms(group) == vms
    assert site.edit(group, spending_rate=90.0).spending_rate == 90.0
    before = site.balances()
    site.periods(2)
    after = site.balances()
    assert before[site.ann] == after[site.ann]
    assert before[site.bob] > after[site.bob]


def test_vms_that_are_not_made_yet_are_made_for_the_new_owner(site: Site) -> None:
    """The former owner would pay for VMs that the new owner controls."""
    fault = {"kind": "refuse", "method": "one.vm.allocate", "code": 16384, "count": 2}
    site.bench.ok("embedded.fault.add", fault)
    group = site.create(60.0, 2)
    site.periods(1)
    site.wait(site.keeper.change(group, owner=site.bob))
    site.periods(3)
    assert [site.bench.vm(vm).uid for vm in site.vms(group)] == [site.bob, site.bob]
    assert site.alive() == site.vms(group)
