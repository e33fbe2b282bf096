"""Limits and pins of guests that are suspended, migrated, or pinned by OpenNebula."""

from pathlib import Path

import sqlalchemy as sa

from merkatd.cluster import Migrate, Pin
from merkatd.database.scheduler.step_store import STEPS
from tests.real.host import RealHost, until
from tests.real.site import Site, running

STAYS = 'MERKAT_PINNED="YES"'
PINNED = 'pin_hosts = ["*"]\nreserved_cores = [1]'
VCPU, EMULATOR = "CPU 0/TCG", "qemu-system-x86"


def test_limits_are_set_again_after_a_resume(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """A resumed guest is a new domain without limits; until then, other guests get its share."""
    with running(tmp_path, mortal_hosts[:1], cores=1) as site:
        first, second = (site.new(1.0, vcpus=1, more=STAYS) for _ in range(2))
        until(lambda: site.guest(second).quota_us() == 50_000, "two share a core")
        site.call("one.vm.action", "suspend", second)
        until(lambda: second not in site.guests.there, "it is suspended")
        until(lambda: site.guest(first).quota_us() == 100_000, "one has a core")
        site.call("one.vm.action", "resume", second)
        until(lambda: second in site.guests.there, "it is resumed")
        # The first of these periods may have begun before the guest ran.
        site.after_periods(2)
        assert site.guest(second).quota_us() == site.guest(first).quota_us() == 50_000
        assert not site.failed


def test_own_pins_are_cleared_before_a_migration_and_set_after_it(
    mortal_hosts: list[RealHost], tmp_path: Path
) -> None:
    """A guest that leaves a drained host loses its pins there and gets pins on the new host."""
    with running(tmp_path, mortal_hosts, cores=2, more=PINNED) as site:
        vm = site.new(1.0, vcpus=1)
        until(lambda: site.guest(vm).threads().get(VCPU) == {0}, "it is pinned")
        left = site.guests.there[vm]
        site.command("host", "drain", str(left))
        until(lambda: site.guests.there[vm] != left, "it has moved")
        until(
            lambda: site.guest(vm).threads().items() >= {VCPU: {0}, EMULATOR: {1}}.items(),
            "it is pinned again",
        )
        order = steps_of(site, vm)
        moved = order.index(Migrate.kind)
        assert order[moved - 1] == Pin.kind, "it went with its pins"
        assert Pin.kind in order[moved + 1 :]


def test_cores_that_opennebula_chose_are_left_alone(
    mortal_hosts: list[RealHost], tmp_path: Path
) -> None:
    """On hosts that Merkat pins, a guest with a PIN_POLICY keeps its cores, even on release."""
    with running(tmp_path, mortal_hosts[:1], cores=2, more=PINNED) as site:
        ours = site.new(1.0, vcpus=1)
        theirs = site.allocated(1.0, 1, 64, 'TOPOLOGY=[PIN_POLICY="CORE"]', held=True)
        site.call("one.vm.deploy", theirs, 0, False, -1, "")
        until(lambda: theirs in site.guests.there, "it runs")
        # OpenNebula's driver sets these pins when it starts the guest.
        site.guest(theirs).domain.pinVcpu(0, (False, True))
        until(lambda: site.guest(ours).threads().get(VCPU) == {0}, "the other is pinned")
        site.after_periods(3)
        assert site.guest(theirs).threads()[VCPU] == {1}
        assert site.guest(theirs).scheduling["global_quota"] > 0
        site.command("release", "--yes")
        assert site.guest(theirs).threads()[VCPU] == {1}
        assert site.guest(ours).threads()[VCPU] == {0, 1}


def steps_of(site: Site, vm: int) -> list[str]:
    """Return the kinds of all steps for a VM, the oldest first."""
    query = sa.select(STEPS.c.kind).where(STEPS.c.vm == vm, STEPS.c.sent_s.is_not(None))
    in_order = query.order_by(STEPS.c.period, STEPS.c.position)
    return list(site.read(lambda connection: connection.scalars(in_order).all()))
