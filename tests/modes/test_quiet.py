"""The quiet start: no mass moves in the first periods of a daemon, whatever it finds."""

from itertools import pairwise

import pytest

from merkatd.cluster import Migrate, Plan
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Mode
from merkatd.scheduler.base.settings import ActingSettings
from merkatd.scheduler.phases.permission import Permission, with_fewer_moves
from tests.modes.site import Site

VMS = 8


@pytest.fixture
def lopsided(site: Site) -> Site:
    """All VMs are on a host that is to be emptied, and a daemon has just been started."""
    for _ in range(VMS):
        site.bench.ok("one.vm.deploy", site.vm(MEMORY=512), 0)
    site.clock.advance(60)
    site.world_settings = {"acting": ActingSettings(quiet_periods=3, quiet_migrations=1)}
    site.start_daemon()
    site.ask("drain", host="0", who="root")
    return site


def moves(site: Site) -> list[int]:
    """How many moves were decided in each period from the first on."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(kind="migrate"), 1000))
    counts = [0] * 40
    for row in rows:
        counts[row.step.period] += 1
    return counts[1:]


def test_few_vms_are_moved_in_the_first_periods(lopsided: Site) -> None:
    """Then as many as it takes."""
    lopsided.minutes(6)
    counts = moves(lopsided)
    assert counts[:3] == [1, 1, 1]
    assert sum(counts[3:]) == VMS - 3
    assert all(lopsided.host_of(vm) != 0 for vm in range(VMS))
    lopsided.agree()


def test_a_plan_with_as_many_moves_as_are_allowed_stays_as_it_is(site: Site) -> None:
    """Only one with more is decided anew, with the best of them."""
    vms = [site.vm() for _ in range(3)]
    seen = site.period().seen
    moves = Plan.ordered(
        [Migrate(period=1, vm=vm, host=1, source=0, gain=-float(vm), reason="") for vm in vms]
    )
    for most in (None, 3, 4):
        assert with_fewer_moves(seen, moves, Permission(Mode.ON, moves=most)) is None
    fewer = with_fewer_moves(seen, moves, Permission(Mode.ON, moves=2))
    assert fewer is not None
    assert fewer.snapshot.vms.id[fewer.snapshot.vms.movable].tolist() == vms[:2]


def test_what_waits_is_placed_all_the_same(lopsided: Site) -> None:
    """Placing moves nobody."""
    new = [lopsided.vm(MEMORY=512) for _ in range(4)]
    lopsided.minutes(2)
    assert {lopsided.state(vm) for vm in new} == {"RUNNING"}
    assert moves(lopsided)[:2] == [1, 1]


def test_the_rehearsal_says_as_much(lopsided: Site) -> None:
    """`merkatd plan` shows what the next period would do, and `merkatd mode` why."""
    plan = lopsided.ask("plan")
    assert [step["kind"] for step in plan["steps"]].count("migrate") == 1
    assert lopsided.ask("mode")["most_moves"] == 1


@pytest.mark.parametrize("mode", [Mode.DRY, Mode.SHADOW, Mode.ASK])
def test_a_change_of_mode_to_on_begins_quietly_too(mode: Mode, site: Site) -> None:
    """What was only watched for a week is not all done in a minute."""
    for _ in range(VMS):
        site.bench.ok("one.vm.deploy", site.vm(MEMORY=512), 0)
    site.world_settings = {"acting": ActingSettings(mode=mode, quiet_periods=2, quiet_migrations=1)}
    site.start_daemon()
    site.ask("drain", host="0", who="root")
    site.minutes(5)
    assert sum(moves(site)) == 0
    site.mode(Mode.ON)
    site.minutes(4)
    assert moves(site)[5:7] == [1, 1]
    assert sum(moves(site)) == VMS


def test_so_does_going_on_after_a_pause(site: Site) -> None:
    """The world may have changed meanwhile."""
    site.world_settings = {"acting": ActingSettings(quiet_periods=2, quiet_migrations=1)}
    site.start_daemon()
    for _ in range(VMS):
        site.bench.ok("one.vm.deploy", site.vm(MEMORY=512), 0)
    site.scheduler.start()
    site.clock.pump([1.0] * 250)
    site.ask("pause", who="root")
    site.clock.pump([1.0] * 120)
    site.ask("drain", host="0", who="root")
    before = sum(moves(site))
    site.ask("resume", who="root")
    site.clock.pump([1.0] * 60)
    after = sum(moves(site))
    assert after - before <= 1
    site.clock.pump([1.0] * 600)
    assert all(site.host_of(vm) != 0 for vm in range(VMS))
    counts = [count for count in moves(site) if count]
    assert all(later >= 1 for _, later in pairwise(counts))
    site.result(site.stopped())
