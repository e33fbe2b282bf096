"""The quiet start: a daemon makes few migrations in its first periods."""

from itertools import pairwise

import pytest

from merkatd.cluster import Migrate, Plan
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Mode
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.phases.permission import Permission, with_fewer_moves
from tests.lengths import SOAK
from tests.modes.site import Site

VMS = 8


@pytest.fixture
def lopsided(site: Site) -> Site:
    """Return a restarted daemon with all VMs on a host to be drained."""
    for _ in range(VMS):
        site.bench.ok("one.vm.deploy", site.vm(MEMORY=512), 0)
    site.clock.advance(60)
    site.world_settings = {"acting": ActingSettings(quiet_periods=3, quiet_migrations=1)}
    site.start_daemon()
    site.ask("drain", host="0", who="root")
    return site


def moves(site: Site) -> list[int]:
    """Return the number of migrations decided in each period, from the first on."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(kind="migrate"), 1000))
    counts = [0] * 40
    for row in rows:
        counts[row.step.period] += 1
    return counts[1:]


def test_few_vms_are_moved_in_the_first_periods(lopsided: Site) -> None:
    """Later periods move all the others."""
    lopsided.minutes(6)
    counts = moves(lopsided)
    assert counts[:3] == [1, 1, 1]
    assert sum(counts[3:]) == VMS - 3
    assert all(lopsided.host_of(vm) != 0 for vm in range(VMS))
    lopsided.agree()


def test_a_plan_within_the_limit_of_moves_is_unchanged(site: Site) -> None:
    """A plan with too many moves is decided again, with the best of them."""
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


def test_pending_vms_are_placed_without_delay(lopsided: Site) -> None:
    """A placement does not count as a migration."""
    new = [lopsided.vm(MEMORY=512) for _ in range(4)]
    lopsided.minutes(2)
    assert {lopsided.state(vm) for vm in new} == {"RUNNING"}
    assert moves(lopsided)[:2] == [1, 1]


def test_the_preview_respects_the_limit(lopsided: Site) -> None:
    """`merkatd plan` previews the next period, and `merkatd mode` shows the limit."""
    plan = lopsided.ask("plan")
    assert [step["kind"] for step in plan["steps"]].count("migrate") == 1
    assert lopsided.ask("mode")["most_moves"] == 1


@pytest.mark.parametrize("mode", [Mode.ASK, *[Mode.DRY, Mode.SHADOW] * SOAK])
def test_a_change_to_mode_on_starts_quietly_too(mode: Mode, site: Site) -> None:
    """Decisions accumulated while watching are not all carried out at once."""
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


def test_a_resumed_daemon_starts_quietly_too(site: Site) -> None:
    """The cloud may have changed during the pause."""
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
    site.clock.pump([1.0] * 480)
    assert all(site.host_of(vm) != 0 for vm in range(VMS))
    counts = [count for count in moves(site) if count]
    assert all(later >= 1 for _, later in pairwise(counts))
    site.result(site.stopped())
