"""A disabled host keeps its VMs; only an order to empty it moves them."""

import itertools
from typing import Any

import pytest

from merkatd.cluster import HostState
from merkatd.database.scheduler import journal, migration_history
from merkatd.database.scheduler.migration_history import REMEMBERED_S
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.scheduler.phases.announce import Announcement
from merkatd.scheduler.terms.failed_migrations import LONGEST_REST_S
from merkatd.service.base.period_view import present
from merkatd.service.market.listings import HOST_STATES, host_rows
from tests.scheduler.frontend import Frontend


def placed(frontend: Frontend, count: int = 6) -> list[int]:
    """Return several running VMs."""
    vms = [frontend.vm() for _ in range(count)]
    frontend.periods(3)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    return vms


def on(frontend: Frontend, host: int, vms: list[int]) -> list[int]:
    """Return the VMs that are on the host."""
    return [vm for vm in vms if frontend.host_of(vm) == host]


def disable(frontend: Frontend, host: int) -> None:
    """Disable the host as `onehost disable` does."""
    frontend.bench.ok("one.host.status", host, 1)


class TestDisabled:
    def test_a_disabled_host_keeps_its_vms_and_gets_no_more(self, frontend: Frontend) -> None:
        """`onehost disable` stops new deployments; running VMs stay."""
        vms = placed(frontend)
        there = on(frontend, 0, vms)
        assert there
        disable(frontend, 0)
        frontend.periods(4)
        assert on(frontend, 0, vms) == there
        new = placed(frontend, 4)
        assert not on(frontend, 0, new)
        assert on(frontend, 0, vms) == there
        frontend.agree()

    def test_no_vm_leaves_a_disabled_host_for_gain(self, frontend: Frontend) -> None:
        """A disabled host is left alone, even a crowded one."""
        vms = [frontend.vm(cpu_bid=5.0, VCPU=4) for _ in range(3)]
        for vm in vms:
            frontend.bench.ok("one.vm.deploy", vm, 0)
        frontend.clock.advance(60)
        disable(frontend, 0)
        frontend.periods(4)
        assert on(frontend, 0, vms) == vms
        frontend.bench.ok("one.host.status", 0, 0)
        frontend.periods(4)
        assert on(frontend, 0, vms) != vms

    def test_an_order_to_drain_empties_a_disabled_host(self, frontend: Frontend) -> None:
        """`merkatd host drain` follows `onehost disable`."""
        vms = placed(frontend)
        disable(frontend, 0)
        frontend.period()
        frontend.order(Order.DRAIN, 0)
        frontend.periods(4)
        assert on(frontend, 0, vms) == []

    def test_a_flush_empties_a_disabled_host(self, frontend: Frontend) -> None:
        """`onehost flush` disables the host and sets RESCHED on each of its VMs."""
        vms = placed(frontend)
        there = on(frontend, 0, vms)
        disable(frontend, 0)
        for vm in there[:-1]:
            frontend.bench.ok("one.vm.action", "resched", vm)
        frontend.periods(4)
        assert on(frontend, 0, vms) == there[-1:]


WORDS = "[one.vm.migrate] Cannot migrate: the CPU model differs"


def crowd(count: int = 12) -> tuple[Frontend, list[int]]:
    """Return three hosts, one of which runs all the VMs."""
    frontend = Frontend(hosts=3)
    vms = [frontend.vm(VCPU=1, MEMORY=256) for _ in range(count)]
    for vm in vms:
        frontend.bench.ok("one.vm.deploy", vm, 0)
    frontend.clock.advance(60)
    return frontend, vms


def refuse(frontend: Frontend, vms: list[int]) -> None:
    """Make OpenNebula refuse to migrate these VMs."""
    for vm in vms:
        frontend.cloud.faults.add(
            Fault(FaultKind.REFUSE, "one.vm.migrate", vm=vm, code=2048, text=WORDS)
        )


def migrations(frontend: Frontend, vm: int) -> list[Any]:
    """Return the VM's migrations, oldest first."""
    rows = frontend.read(lambda c: journal.history(c, vm, 1000))
    return [row for row in reversed(rows) if row.step.kind == "migrate"]


def shown(frontend: Frontend, latest: Announcement) -> dict[int, Any]:
    """Return the notes of `merkatd list hosts` by host id."""
    drained = frontend.scheduler.drained
    now = present(latest, frontend.scheduler.world.markets)
    rows = host_rows(now, range(len(now.snapshot.hosts)), drained)
    return {row.id: row.use.note for row in rows if row.use is not None}


class TestFailing:
    def test_vms_that_fail_to_leave_delay_no_other_vm(self) -> None:
        """Eight VMs with the lowest ids can't move; the limit is five migrations a period."""
        frontend, vms = crowd(12)
        refuse(frontend, vms[:8])
        frontend.order(Order.DRAIN, 0)
        latest = frontend.periods(10)
        assert on(frontend, 0, vms) == vms[:8]
        reasons = latest.decided.decision.reasons
        for vm in vms[:8]:
            assert "fails to leave host000" in reasons[vm]
            assert WORDS in reasons[vm]
        assert shown(frontend, latest)[0].startswith("VM 0 fails to leave (and 7 others): ")
        assert WORDS in shown(frontend, latest)[0]
        frontend.agree()
        frontend.close()

    def test_migrations_for_gain_continue_beside_vms_that_fail_to_leave(self) -> None:
        """VMs that failed in the last period don't use up the limit of migrations."""
        frontend, vms = crowd(8)
        refuse(frontend, vms)
        frontend.order(Order.DRAIN, 0)
        frontend.periods(4)
        busy = [frontend.vm(cpu_bid=9.0, VCPU=4, MEMORY=256) for _ in range(4)]
        for vm in busy:
            frontend.bench.ok("one.vm.deploy", vm, 1)
        frontend.clock.advance(60)
        frontend.periods(6)
        assert on(frontend, 2, busy)
        frontend.close()

    def test_each_attempt_waits_longer_than_the_previous_one(self) -> None:
        """The first wait is two periods; each wait doubles, up to an hour."""
        frontend, vms = crowd(1)
        refuse(frontend, vms)
        frontend.order(Order.DRAIN, 0)
        frontend.periods(6)
        for wait_s in (480.0, 960.0, 1920.0, LONGEST_REST_S, LONGEST_REST_S):
            frontend.periods(2, wait_s / 2)  # the waits are times, not numbers of periods
        tried = [row.sent_s for row in migrations(frontend, vms[0])]
        gaps = [later - sooner for sooner, later in itertools.pairwise(tried)]
        assert gaps == [120.0, 240.0, 480.0, 960.0, 1920.0, LONGEST_REST_S]
        frontend.close()

    def test_the_message_is_removed_once_the_vm_leaves(self) -> None:
        """Earlier failures no longer count."""
        frontend, vms = crowd(1)
        refuse(frontend, vms)
        frontend.order(Order.DRAIN, 0)
        shown_now = frontend.periods(4).seen.observation.messages
        assert "fails to leave" in shown_now[vms[0]]
        frontend.cloud.faults.clear()
        latest = frontend.periods(10)
        assert on(frontend, 0, vms) == []
        assert latest.decided.decision.reasons == {}
        assert frontend.period().seen.observation.messages == {}
        assert shown(frontend, latest)[0] == "drained and empty"
        frontend.close()

    def test_a_drivers_error_is_reported(self) -> None:
        """A failed live migration leaves ERROR in the VM's template."""
        frontend, vms = crowd(1)
        frontend.cloud.faults.add(Fault(FaultKind.FAIL, vm=vms[0], lcm="MIGRATE"))
        frontend.bench.ok("one.vm.update", vms[0], 'ERROR="Error live migrating: no bridge"', 1)
        frontend.order(Order.DRAIN, 0)
        frontend.periods(3)
        [first, *_] = migrations(frontend, vms[0])
        assert first.reply.endswith("OpenNebula says: Error live migrating: no bridge")
        frontend.close()


class TestTogether:
    """VMs of an AFFINED role leave a host one by one and meet again on the next host."""

    @staticmethod
    def role(frontend: Frontend, memory_mib: int) -> list[int]:
        """Create two VMs of such a role."""
        text = 'NAME="g"\nROLE=[NAME="a",POLICY="AFFINED"]'
        group = frontend.bench.ok("one.vmgroup.allocate", text)
        text = (
            f'CPU="1"\nVCPU="1"\nMEMORY="{memory_mib}"\nMERKAT_MIN_MEMORY="{memory_mib}"\n'
            f'MERKAT_BID_CPU="1"\nMERKAT_BID_MEMORY="50"\nVMGROUP=[VMGROUP_ID="{group}",ROLE="a"]'
        )
        return [frontend.bench.new(text) for _ in range(2)]

    def test_the_members_leave_a_drained_host(self) -> None:
        """The first goes to a host with room for all, and the others follow."""
        frontend = Frontend(hosts=3)
        vms = self.role(frontend, 512)
        frontend.periods(4)
        [before] = {frontend.host_of(vm) for vm in vms}
        frontend.order(Order.DRAIN, before)
        frontend.periods(6)
        [after] = {frontend.host_of(vm) for vm in vms}
        assert after not in {before, None}
        frontend.agree()
        frontend.close()

    def test_no_member_goes_to_a_host_without_room_for_all(self) -> None:
        """The members stay together, and their owners read the reason."""
        frontend = Frontend(hosts=2)
        vms = self.role(frontend, 3000)
        frontend.periods(4)
        [before] = {frontend.host_of(vm) for vm in vms}
        wall = frontend.vm(MEMORY=4000, MERKAT_MIN_MEMORY=4000, MERKAT_BID_MEMORY=50)
        frontend.periods(2)
        assert frontend.host_of(wall) == 1 - before
        frontend.order(Order.DRAIN, before)
        latest = frontend.periods(4)
        assert {frontend.host_of(vm) for vm in vms} == {before}
        reasons = {**latest.decided.decision.reasons, **latest.decided.limits.postponed}
        assert all("host00" in reasons[vm] for vm in vms), reasons
        frontend.close()


class TestHeld:
    def test_confirmed_migrations_hold_a_vm_and_failed_ones_do_not(self) -> None:
        """The journal keeps both for as long as they count."""
        frontend, vms = crowd(6)
        refuse(frontend, vms[:2])
        frontend.order(Order.DRAIN, 0)
        frontend.periods(2)
        frontend.order(Order.UNDRAIN, 0)
        latest = frontend.periods(3)
        moved_at_s = latest.seen.snapshot.vms.moved_at_s
        for row, vm in enumerate(vms):
            ended = [row.ended_s for row in migrations(frontend, vm) if row.state == "confirmed"]
            if vm in vms[:2]:
                assert not ended
                assert moved_at_s[row] != moved_at_s[row]
            else:
                assert moved_at_s[row] == ended[-1]
        history = frontend.read(lambda c: migration_history.recent(c, frontend.clock.seconds()))
        assert set(history.failing) == set(vms[:2])
        later = frontend.clock.seconds() + REMEMBERED_S
        assert (
            frontend.read(lambda c: migration_history.recent(c, later))
            == migration_history.RecentMigrations()
        )
        frontend.close()


@pytest.mark.parametrize("state", HostState)
def test_each_state_of_a_host_has_its_own_name(state: HostState) -> None:
    """`merkatd list hosts` shows the name."""
    assert len({HOST_STATES[state] for state in HostState}) == len(HostState)
    assert HOST_STATES[state]
