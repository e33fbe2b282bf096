"""Complete lives of groups, in virtual time on the embedded cloud."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Terminate
from merkatd.database.fleets import group_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.scheduler import journal
from merkatd.embedded.machines import faults
from merkatd.embedded.machines.faults import Fault
from merkatd.groups import group_keeper
from merkatd.groups.group_fleet import group_change
from merkatd.ledger import LedgerError, NotFoundError
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import UnknownObjectError
from tests.groups.site import Site, groups_at, template
from tests.lengths import shorten


class TestExample:
    def test_the_worked_example_gives_exact_shares(self, site: Site) -> None:
        """Three nodes of four cores with (70, 2, 3), (60, 2, 3), (40, 2, 3) match to the digit."""
        ids = [site.create(rate, 2) for rate in (70.0, 60.0, 40.0)]
        site.periods(4)
        shares = [[site.quota(vm) for vm in site.vms(group)] for group in ids]
        assert shares == [
            pytest.approx([254.5454545] * 2, abs=0.01),
            pytest.approx([200.0] * 2, abs=0.01),
            pytest.approx([145.4545454] * 2, abs=0.01),
        ]
        assert {site.bench.vm(vm).uid for group in ids for vm in site.vms(group)} == {site.ann}

    def test_a_satisfied_group_causes_no_steps(self, site: Site) -> None:
        """Once all requested VMs run, periods have no steps."""
        for rate in (70.0, 60.0, 40.0):
            site.create(rate, 2)
        site.periods(5)
        assert [len(site.period().decided.steps) for _ in range(3)] == [0, 0, 0]


class TestNumber:
    def test_editing_the_number_changes_exactly_the_difference(self, site: Site) -> None:
        """The newest VMs end first, and the remaining ones are the same."""
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

    def test_named_vms_end(self, site: Site) -> None:
        """With a smaller number, the newest of the other VMs end too."""
        group = site.create(60.0, 4)
        site.periods(3)
        first, two, three, four = site.vms(group)
        site.edit(group, ending=[two])
        site.periods(2)
        assert site.vms(group) == [first, three, four]
        site.edit(group, nvm=1, ending=[first])
        site.periods(2)
        assert site.vms(group) == [three]
        with pytest.raises(LedgerError, match="VM 99 is not in group"):
            site.edit(group, ending=[99])
        with pytest.raises(LedgerError, match="leave 0 of 1, not 1"):
            site.edit(group, nvm=1, ending=[three])
        site.edit(group, nvm=0)
        with pytest.raises(LedgerError, match="set to 0 VMs"):
            site.edit(group, ending=[three])

    def test_a_rate_is_divided_by_the_number_of_vms(self, site: Site) -> None:
        """The owner's own bid on a VM has no effect."""
        group = site.create(60.0, 2)
        site.create(30.0, 1)
        seen = site.periods(3).seen.snapshot
        assert seen.vms.bid[:, 0].tolist() == [30.0, 30.0, 30.0]
        vm = site.vms(group)[0]
        site.bench.ok("one.vm.update", vm, 'MERKAT_BID_CPU="1000"', 1)
        site.edit(group, spending_rate=120.0)
        seen = site.period().seen.snapshot
        assert seen.vms.bid[:, 0].tolist() == [60.0, 60.0, 30.0]

    def test_a_vm_that_its_owner_ends_is_not_started_again(self, site: Site) -> None:
        """The group has one VM fewer and the reason, and can be enlarged again."""
        group = site.create(60.0, 2)
        site.periods(3)
        gone = site.vms(group)[0]
        site.bench.ok("one.vm.action", "terminate-hard", gone)
        site.periods(3)
        row = site.group(group)
        assert row is not None
        assert row.nvm == 1
        assert f"VM {gone} ended by itself" in row.why
        site.edit(group, nvm=2)
        site.periods(3)
        assert len(site.running()) == 2

    def test_a_vm_that_opennebula_rejects_is_given_up(self, site: Site) -> None:
        """It is given up after three attempts with OpenNebula's text, and can be edited again."""
        group = site.create(60.0, 1, template="CPU=1\nMEMORY=-5")
        site.periods(6)
        row = site.group(group)
        assert row is not None
        assert row.nvm == 0
        assert "VM 1 could not be made: " in row.why
        assert site.alive() == []


class TestEnd:
    def test_a_deleted_group_ends_all_its_vms(self, site: Site) -> None:
        """It exists until the last VM has ended, and cannot be edited."""
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
    def test_a_stopped_vm_ends_with_its_group(self, site: Site, action: str) -> None:
        """Its owner stopped or undeployed it; otherwise the group would never end."""
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
        row = site.group(group)
        assert row is not None
        assert row.ended_s is not None

    def test_a_guest_that_ignores_its_shutdown_is_ended_hard(self, site: Site) -> None:
        """Otherwise it would use its part of the group's rate for ever."""
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

    @pytest.mark.parametrize("fault", [faults.FaultKind.DELAY, faults.FaultKind.HANG])
    def test_a_guest_that_was_not_asked_is_not_ended_hard(self, fault: faults.FaultKind) -> None:
        """Slow calls take the turns of the others, or get no answer; guests have work to save."""
        site = Site(rhythm=Rhythm(act_limit_s=20.0, in_flight=1))
        group = site.create(60.0, 5)
        site.periods(3)
        site.cloud.faults.add(Fault(fault, method="one.vm.action", seconds=25.0, count=5))
        site.delete(group)
        site.periods(shorten(11, 9))
        assert site.alive() == []
        rows = site.read(lambda c: journal.recent(c, journal.StepFilter(kind="terminate")))
        assert not any(row.step.hard for row in rows if isinstance(row.step, Terminate))

    def test_vms_that_are_to_end_share_the_rate_until_they_are_gone(self) -> None:
        """Otherwise each would bid the full rate, and neighbours would lose their cores."""
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

    def test_a_group_deleted_before_its_first_vm_creates_none(self, site: Site) -> None:
        """No VM is ever created."""
        group = site.create(60.0, 3)
        site.delete(group)
        site.periods(2)
        assert site.alive() == []
        row = site.group(group)
        assert row is not None
        assert row.ended_s is not None

    def test_a_deletion_answers_after_the_end_of_its_group(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A period may end the group before the answer is made: it is still no error."""
        group = site.create(60.0, 1)
        delete = site.keeper.delete

        async def delete_and_end(group: int) -> GroupRow:
            row = await delete(group)
            with site.engine.begin() as connection:
                group_store.change(connection, group, ended_s=site.scheduler.world.now())
            return row

        monkeypatch.setattr(site.keeper, "delete", delete_and_end)
        details = site.wait(groups_at(site).delete(LOCAL, group))
        assert (details.id, details.vms) == (group, [])
        with pytest.raises(UnknownObjectError):
            site.wait(groups_at(site).group(LOCAL, group))


class TestFaults:
    def test_a_failing_group_does_not_affect_the_others(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The period continues, and the group gets its VMs once the fault is gone."""
        before, broken, after = (site.create(60.0, 1) for _ in range(3))
        fails = [True]

        def failing(group: GroupRow, *arguments: Any, **named: Any) -> Any:
            if group.id == broken and fails[0]:
                raise ZeroDivisionError("nothing to divide by")
            return group_change(group, *arguments, **named)

        monkeypatch.setattr(group_keeper, "group_change", failing)
        site.periods(3)
        assert [len(site.vms(group)) for group in (before, broken, after)] == [1, 0, 1]
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
    def test_a_kill_between_creation_and_deployment_duplicates_no_vm(
        self, site: Site, calls: int
    ) -> None:
        """Wherever the daemon is cut off and restarted, no VM is doubled or lost."""
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
        site.periods(5)
        assert len(site.alive()) == len(site.running()) == 3

    def test_another_users_vm_with_a_groups_key_is_not_a_member(self, site: Site) -> None:
        """Only a VM of the group's owner is bound to the group and ended with it."""
        group = site.create(60.0, 1)
        site.period()
        key = site.members(group)[0].key
        stranger = site.bench.new(f'{template()}\nMERKAT_KEY="{key}"', session="eve:secret")
        site.periods(4)
        assert stranger not in site.vms(group)
        site.delete(group)
        site.periods(4)
        assert site.alive() == [stranger]

    def test_edits_of_two_users_apply_in_order(self, site: Site) -> None:
        """Each edit starts from the result of the one before, so the last number applies."""
        rng = np.random.default_rng(5)
        group = site.create(60.0, 4)
        site.periods(3)
        for _ in range(shorten(10, 4)):
            numbers = rng.integers(1, 7, 3).tolist()
            for nvm in numbers:
                site.edit(group, nvm=int(nvm))
            victims = [vm for vm in site.vms(group) if rng.random() < 0.2]
            with suppress(LedgerError):
                site.edit(group, ending=victims)
            site.periods(3)
            row = site.group(group)
            assert row is not None
            assert len(site.running()) == len(site.alive()) == row.nvm
