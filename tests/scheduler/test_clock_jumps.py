"""A wall clock that is set while the daemon runs."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from twisted.internet.task import Clock

from merkatd.database import retention
from merkatd.database.ledger import note_store
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.database.scheduler import period_store
from merkatd.database.scheduler.migration_history import FailingVm, RecentMigrations
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.retain import horizon_of
from merkatd.scheduler.terms.failed_migrations import resting
from merkatd.scheduler.timer import PeriodTimer
from tests.lengths import shorten
from tests.scheduler.frontend import Frontend

DAY_S = 86_400.0
RHYTHM = Rhythm()


class Site:
    """Run periods that take no time, by a wall clock that can be set."""

    def __init__(self) -> None:
        self._reactor: Any = Clock()
        self._set_s = 1.8e9
        self.ran: list[float] = []
        self.beat = PeriodTimer(self, RHYTHM, self._period)
        self.beat.start()

    def pass_s(self, seconds: float) -> None:
        """Let real time pass."""
        self._reactor.pump([5.0] * round(seconds / 5))

    def set_clock(self, jump_s: float) -> None:
        """Move the wall clock forward or back."""
        self._set_s += jump_s

    @property
    def longest_gap_s(self) -> float:
        """Return the longest real time between two periods."""
        return max(after - before for before, after in pairwise(self.ran))

    def seconds(self) -> float:
        """Return the wall clock's time."""
        return self._set_s + float(self._reactor.seconds())

    def callLater(self, delay: float, call: Any, /, *arguments: object) -> Any:  # noqa: N802
        """Call a function after a real delay."""
        return self._reactor.callLater(delay, call, *arguments)

    async def _period(self) -> None:
        self.ran.append(self._reactor.seconds())


@pytest.mark.parametrize("jump_s", [-3600.0, -365 * DAY_S, 3600.0, 365 * DAY_S])
def test_periods_continue_after_the_clock_is_set(jump_s: float) -> None:
    """At most one interval is lost."""
    site = Site()
    site.pass_s(600.0)
    site.set_clock(jump_s)
    site.pass_s(3600.0)
    assert site.longest_gap_s <= 2 * RHYTHM.interval_s
    assert len(site.ran) >= 4200.0 / RHYTHM.interval_s - 1


def test_a_clock_that_was_a_year_ahead_for_minutes_stops_no_period() -> None:
    """An event doesn't wait for the old time either."""
    site = Site()
    site.pass_s(600.0)
    site.set_clock(365 * DAY_S)
    site.pass_s(300.0)
    site.set_clock(-365 * DAY_S)
    site.beat.wake()
    site.pass_s(1200.0)
    assert site.longest_gap_s <= 2 * RHYTHM.interval_s


def test_a_migration_that_failed_while_the_clock_was_ahead_pins_no_vm() -> None:
    """The VM rests for minutes after the attempt, not until the wrong time is reached."""
    moves = RecentMigrations(
        failing={7: FailingVm(1, 365 * DAY_S, "no space"), 8: FailingVm(1, 40.0, "no")}
    )
    for at_s, held in ((60.0, {8}), (3600.0, set()), (300 * DAY_S, set()), (365 * DAY_S, {7})):
        assert resting(moves.failing, at_s, 60.0) == held


class SetBack(Frontend):
    """A frontend whose wall clock can be set back."""

    back_s = 0.0

    def wall_s(self) -> float:
        """Return the time by the wall clock."""
        return super().wall_s() - self.back_s


def test_a_refused_deployment_is_retried_after_the_clock_is_set_back() -> None:
    """The VM, and its owner's other VMs, wait for minutes, not until the old time is reached."""
    frontend = SetBack()
    vms = [frontend.vm() for _ in range(5)]
    for vm in vms[:4]:
        frontend.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.deploy", vm=vm, count=1))
    frontend.bench.ok("one.vm.action", "hold", vms[4])
    frontend.period()
    frontend.back_s = 3000.0
    frontend.bench.ok("one.vm.action", "release", vms[4])
    frontend.clock.advance(60.0)
    frontend.periods(6)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    frontend.close()


class TestWhatIsDeleted:
    """History is deleted by age and can't be restored."""

    @staticmethod
    def left(frontend: Frontend, jump_s: float) -> tuple[list[str], float]:
        """Delete old rows; return the remaining notes and the greatest age of a detail."""
        now_s = frontend.clock.seconds() + jump_s
        world = replace(frontend.scheduler.world, now=lambda: now_s)
        last = frontend.read(period_store.newest).number
        horizon = frontend.read(lambda c: horizon_of(c, world, last))
        while frontend.read(lambda c: retention.delete_old_rows(c, horizon)):
            pass
        notes = frontend.read(note_store.recent)
        return [note.text for note in notes], frontend.clock.seconds() - horizon.details_s

    def test_a_clock_that_is_a_year_ahead_deletes_no_recent_history(self) -> None:
        """A clock that is days ahead doesn't either; at the right time old history is deleted."""
        most, detailed = shorten(10, 6), shorten(4, 2)
        kept = Rhythm(
            interval_s=DAY_S / 2, keep_history_s=most * DAY_S, keep_allocations=2 * detailed
        )
        frontend = Frontend(rhythm=kept)
        frontend.measure_hourly()
        days = [f"day {day}" for day in range(most + 3)]
        for day in days:
            now_s = frontend.clock.seconds()
            note = Note(at_s=now_s, kind=NoteKind.GRANT, who="root", text=day)
            frontend.read(lambda c, note=note: note_store.add(c, note))
            frontend.periods(2, DAY_S / 2)
        for jump_s in (3 * DAY_S, 365 * DAY_S):
            there, details_s = self.left(frontend, jump_s)
            assert set(there) >= set(days[-most:])
            assert details_s >= 0.0
        right, details_s = self.left(frontend, 0.0)
        assert sorted(right) == sorted(days[-most:])
        assert details_s == detailed * DAY_S
        frontend.close()

    @pytest.mark.parametrize("every_s", [60.0, 20.0])
    def test_early_periods_do_not_shorten_how_long_details_are_kept(self, every_s: float) -> None:
        """Details are kept for a time, and for a minimum number of periods."""
        kept = shorten(8, 4)
        frontend = Frontend(rhythm=Rhythm(interval_s=60.0, keep_allocations=kept))
        try:
            frontend.periods(round((kept + 3) * 60.0 / every_s), every_s)
            world, last = frontend.scheduler.world, frontend.read(period_store.newest).number
            horizon = frontend.read(lambda c: horizon_of(c, world, last))
            oldest = frontend.read(lambda c: period_store.get(c, horizon.details_period))
            age_s = frontend.clock.seconds() - oldest.started_s
        finally:
            frontend.close()
        assert kept * 60.0 <= age_s <= (kept + 1) * 60.0
