"""Whole lives of groups, in virtual time, on the embedded cloud."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Terminate
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.scheduler import journal
from merkatd.embedded.machines import faults
from merkatd.embedded.machines.faults import Fault
from merkatd.groups import group_keeper
from merkatd.groups.group_fleet import group_change
from merkatd.ledger import LedgerError, NotFoundError
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.service.base.callers import LOCAL
from tests.groups.site import Site, groups_at, template


class TestExample:
    def test_the_worked_example_on_hosts(self, site: Site) -> None:
        """Three nodes of four cores, (70, 2, 3), (60, 2, 3), (40, 2, 3): shares to the digit."""
        ids = [site.create(rate, 2) for rate in (70.0, 60.0, 40.0)]
        site.periods(4)
        shares = [[site.quota(vm) for vm in site.vms(group)] for group in ids]
        assert shares == [
            pytest.approx([254.5454545] * 2, abs=0.01),
            pytest.approx([200.0] * 2, abs=0.01),
            pytest.approx([145.4545454] * 2, abs=0.01),
        ]
        assert {site.bench.vm(vm).uid for group in ids for vm in site.vms(group)} == {site.ann}

    def test_nothing_is_done_twice_when_nobody_asks_for_anything(self, site: Site) -> None:
        """No step at all once everybody has what was asked for."""
        for rate in (70.0, 60.0, 40.0):
            site.create(rate, 2)
        site.periods(5)
        assert [len(site.period().decided.steps) for _ in range(3)] == [0, 0, 0]


class TestNumber:
    def test_more_and_fewer_by_exactly_the_difference(self, site: Site) -> None:
        """The newest end first; those that stay are the same as before."""
        group = site.create(60.0, 3)
        site.periods(3)
        first = site.vms(group)
        assert sorted(site.running()) == first
        site.edit(group, nvm=5)
        site.periods(3)
        assert site.vms(group)[:3] == first
        assert len(site.running()) == 5
        site.edit(group, nvm=2)
        site.periods(3)
        assert site.vms(group) == first[:2] == site.alive()

    def test_those_that_are_named_end(self, site: Site) -> None:
        """With a number that leaves fewer, the newest of the others too."""
        group = site.create(60.0, 4)
        site.periods(3)
        one, two, three, four = site.vms(group)
        site.edit(group, ending=[two])
        site.periods(2)
        assert site.vms(group) == [one, three, four]
        site.edit(group, nvm=1, ending=[one])
        site.periods(2)
        assert site.vms(group) == [three]
        with pytest.raises(LedgerError, match="VM 99 is not in group"):
            site.edit(group, ending=[99])
        with pytest.raises(LedgerError, match="leave 0 of 1, not 1"):
            site.edit(group, nvm=1, ending=[three])

    def test_a_rate_is_spread_over_the_vms_there_are_to_be(self, site: Site) -> None:
        """A user's own words on a VM's bid don't count: the group has spoken."""
        group = site.create(60.0, 2)
        site.create(30.0, 1)
        seen = site.periods(3).seen.snapshot
        assert seen.vms.bid[:, 0].tolist() == [30.0, 30.0, 30.0]
        vm = site.vms(group)[0]
        site.bench.ok("one.vm.update", vm, 'MERKAT_BID_CPU="1000"', 1)
        site.edit(group, spending_rate=120.0)
        seen = site.period().seen.snapshot
        assert seen.vms.bid[:, 0].tolist() == [60.0, 60.0, 30.0]

    def test_a_vm_that_ends_by_somebodys_hand_is_not_started_again(self, site: Site) -> None:
        """The group goes on with one fewer, says why, and can be told to have more."""
        group = site.create(60.0, 2)
        site.periods(3)
        gone = site.vms(group)[0]
        site.bench.ok("one.vm.action", "terminate-hard", gone)
        site.periods(3)
        found = site.group(group)
        assert found is not None
        assert found.nvm == 1
        assert f"VM {gone} ended by itself" in found.why
        site.edit(group, nvm=2)
        site.periods(3)
        assert len(site.running()) == 2

    def test_what_opennebula_refuses_to_make_is_given_up(self, site: Site) -> None:
        """After three attempts, with its own words; it can be asked for again."""
        group = site.create(60.0, 1, template="CPU=1\nMEMORY=-5")
        site.periods(6)
        found = site.group(group)
        assert found is not None
        assert found.nvm == 0
        assert "VM 1 could not be made: " in found.why
        assert site.alive() == []


class TestEnd:
    def test_deleted_with_all_its_vms(self, site: Site) -> None:
        """It is there until the last of them is gone; nobody edits it any more."""
        group, other = site.create(60.0, 3), site.create(10.0, 1)
        site.periods(3)
        site.delete(group)
        with pytest.raises(LedgerError, match="was deleted"):
            site.edit(group, nvm=9)
        site.periods(3)
        assert site.alive() == site.vms(other)
        with pytest.raises(NotFoundError, match="there is no group"):
            site.edit(group, nvm=9)

    @pytest.mark.parametrize("action", ["stop", "undeploy"])
    def test_a_vm_that_holds_nothing_anywhere_ends_with_its_group(
        self, site: Site, action: str
    ) -> None:
        """Its owner put it away; the group would else be ending for ever."""
        group = site.create(60.0, 2)
        site.periods(3)
        first, second = site.vms(group)
        site.bench.ok("one.vm.action", action, second)
        site.periods(2)
        site.edit(group, nvm=1)
        site.periods(4)
        assert site.alive() == [first]
        site.bench.ok("one.vm.action", "undeploy", first)
        site.periods(2)
        site.delete(group)
        site.periods(4)
        assert site.alive() == []
        found = site.group(group)
        assert found is not None
        assert found.ended_s is not None

    def test_a_guest_that_ignores_the_order_to_end_is_ended_all_the_same(self, site: Site) -> None:
        """It was asked in vain for ever, and bid its part of the group's rate."""
        group = site.create(60.0, 1)
        site.periods(3)
        (vm,) = site.vms(group)
        site.cloud.faults.add(Fault(faults.FaultKind.FAIL, vm=vm, lcm="SHUTDOWN", count=3))
        site.delete(group)
        site.periods(3)
        assert site.alive() == [vm]
        site.periods(3)
        assert site.alive() == []
        steps = [row.step for row in site.read(lambda c: journal.history(c, vm))]
        ends = [step.hard for step in steps if isinstance(step, Terminate)]
        assert ends == [True, False, False, False]

    def test_vms_that_are_to_end_share_their_groups_rate_until_they_are_gone(self) -> None:
        """Each bid the rate of the one that stays: neighbours had a sixth of their cores."""
        site = Site(hosts=1)
        ann = site.create(60.0, 12, template=template(4, memory=128))
        bob = site.create(60.0, 1, site.bob, template=template(4, memory=128))
        site.periods(6)
        (vm,) = site.vms(bob)
        site.edit(ann, nvm=1)
        for _ in range(4):
            before_s = site.cloud.guests.read()[vm].cpu_s
            site.periods(1)
            assert site.cloud.guests.read()[vm].cpu_s - before_s > 1.9 * 60.0
        site.close()

    def test_deleted_before_anything_was_made(self, site: Site) -> None:
        """Nothing is ever made."""
        group = site.create(60.0, 3)
        site.delete(group)
        site.periods(2)
        assert site.alive() == []
        found = site.group(group)
        assert found is not None
        assert found.ended_s is not None


class TestFaults:
    def test_one_that_fails_stays_as_it_was_and_others_go_on(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The period goes on; once nothing is wrong, the group gets its VMs too."""
        before, broken, after = (site.create(60.0, 1) for _ in range(3))
        fails = [True]

        def failing(group: GroupRow, *arguments: Any, **named: Any) -> Any:
            if group.id == broken and fails[0]:
                raise ZeroDivisionError("nothing to divide by")
            return group_change(group, *arguments, **named)

        monkeypatch.setattr(group_keeper, "group_change", failing)
        site.periods(3)
        assert [len(site.vms(one)) for one in (before, broken, after)] == [1, 0, 1]
        troubles = site.scheduler.world.troubles
        assert troubles.of(TroubleKind.GROUP) == {broken: "ZeroDivisionError: nothing to divide by"}
        groups = groups_at(site)
        why = site.wait(groups.group(LOCAL, broken)).why
        assert why == ("the daemon fails to manage it: ZeroDivisionError: nothing to divide by")
        assert site.wait(groups.group(LOCAL, after)).why == ""
        fails[0] = False
        site.periods(3)
        assert len(site.vms(broken)) == 1
        assert troubles.of(TroubleKind.GROUP) == {}

    @pytest.mark.parametrize("calls", range(5))
    def test_killed_between_create_and_deploy(self, site: Site, calls: int) -> None:
        """Wherever the cloud is cut off and the daemon starts again: no VM twice, none lost."""
        site.create(60.0, 3)
        real, left = site.transport.call, [calls]

        async def call(method: str, session: str, *arguments: Any) -> Any:
            if method not in {"one.vm.allocate", "one.vm.chown", "one.vm.deploy"}:
                return await real(method, session, *arguments)
            left[0] -= 1
            if left[0] < -1:
                raise OSError("cut off before")
            done = await real(method, session, *arguments)
            if left[0] == -1:
                raise OSError("cut off after")
            return done

        site.transport.call = call  # type: ignore[method-assign]
        for _ in range(2):
            with suppress(CloudUnreachableError):
                site.period()
            site.start_daemon()
        site.transport.call = real  # type: ignore[method-assign]
        site.periods(8)
        assert len(site.alive()) == len(site.running()) == 3

    def test_a_strangers_vm_with_a_groups_key_is_not_the_groups(self, site: Site) -> None:
        """Only a VM of its owner's is bound, and ended with it."""
        group = site.create(60.0, 1)
        site.period()
        key = site.members(group)[0].key
        stranger = site.bench.new(f'{template()}\nMERKAT_KEY="{key}"', session="eve:secret")
        site.periods(4)
        assert stranger not in site.vms(group)
        site.delete(group)
        site.periods(4)
        assert site.alive() == [stranger]

    def test_two_users_edit_at_once(self, site: Site) -> None:
        """Every edit starts from what the one before left: the last number counts, exactly."""
        rng = np.random.default_rng(5)
        group = site.create(60.0, 4)
        site.periods(3)
        for _ in range(10):
            numbers = rng.integers(1, 7, 3).tolist()
            for nvm in numbers:
                site.edit(group, nvm=int(nvm))
            victims = [vm for vm in site.vms(group) if rng.random() < 0.2]
            with suppress(LedgerError):
                site.edit(group, ending=victims)
            site.periods(3)
            found = site.group(group)
            assert found is not None
            assert len(site.running()) == len(site.alive()) == found.nvm
