"""A VM is charged for its running time between two observations, each second once."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.ports import GuestRecord, Histories
from merkatd.scheduler.observation.running_time import (
    Starts,
    at_least,
    lacking,
    seconds_run,
    starts,
)
from tests.scheduler.recorded_looks import NEVER, looked


@pytest.mark.parametrize(
    ("old", "ran", "new", "runs", "seconds"),
    [
        (GuestRecord(0, 900), True, GuestRecord(0, 900), True, 60),
        (GuestRecord(0, 900), True, GuestRecord(0, 900, 1015), False, 15),
        (NEVER, False, GuestRecord(0, 1020), True, 40),
        (NEVER, False, GuestRecord(0, 1020, 1050), False, 30),
        (NEVER, False, GuestRecord(0), True, 0),
        (GuestRecord(0), False, GuestRecord(0, 1020), True, 40),
        (GuestRecord(0, 900, 950), False, GuestRecord(0, 900, 950), False, 0),
        (GuestRecord(0, 900, 950), False, GuestRecord(1, 1005), True, 55),
        (GuestRecord(0, 900, 950), False, GuestRecord(1, 1005, 1055), False, 50),
        # A VM that was off is migrated: OpenNebula sets RETIME again.
        (GuestRecord(0, 900, 950), False, GuestRecord(0, 900, 1040), False, 0),
        # OpenNebula reports UNKNOWN now, perhaps forever.
        (GuestRecord(0, 900), True, GuestRecord(0, 900), False, 60),
        (GuestRecord(0, 900), False, GuestRecord(0, 900), False, 0),
        (GuestRecord(0, 900), False, GuestRecord(0, 900), True, 60),
    ],
)
def test_the_last_record_gives_the_running_time(
    old: GuestRecord, ran: bool, new: GuestRecord, runs: bool, seconds: float
) -> None:
    """It must be the earlier record, or follow one that was closed."""
    before, now = looked(1000, (7, ran, old)), looked(1060, (7, runs, new))
    assert lacking(before, now, np.array([True])) == []
    assert seconds_run(before, now, {}).tolist() == [seconds]


@pytest.mark.parametrize(
    ("old", "new", "history", "seconds"),
    [
        # Off and on again.
        (
            GuestRecord(0, 900),
            GuestRecord(1, 1040),
            [GuestRecord(0, 900, 1010), GuestRecord(1, 1040)],
            30,
        ),
        # A migration without a break,
        (
            GuestRecord(0, 900),
            GuestRecord(1, 1030),
            [GuestRecord(0, 900, 1030), GuestRecord(1, 1030)],
            60,
        ),
        # and a migration under way at the first look.
        (
            GuestRecord(1, 0),
            GuestRecord(1, 1030),
            [GuestRecord(0, 900, 1030), GuestRecord(1, 1030)],
            60,
        ),
        # On and off twice, starting from off.
        (
            GuestRecord(3, 800, 850),
            GuestRecord(5, 1030, 1040),
            [GuestRecord(3, 800, 850), GuestRecord(4, 1005, 1010), GuestRecord(5, 1030, 1040)],
            15,
        ),
    ],
)
def test_further_records_are_read_after_several_starts(
    old: GuestRecord, new: GuestRecord, history: list[GuestRecord], seconds: float
) -> None:
    """Each record counts for its part between the two observations."""
    runs = old.ran_until_s == 0
    before, now = looked(1000, (7, runs, old)), looked(1060, (7, runs, new))
    assert lacking(before, now, np.array([True])) == [7]
    # The migration under way began before the first look: its record is older.
    assert seconds_run(before, now, {7: history}).tolist() == [seconds]


@pytest.mark.parametrize(
    ("histories", "seconds"),
    [
        ({}, 60),
        # Its first record since then is missing.
        ({7: [GuestRecord(2, 1020, 1020), GuestRecord(3, 1030, 1030)]}, 60),
        ({7: [GuestRecord(n, 1000 + 10 * n, 1000 + 10 * n) for n in (1, 2, 3)]}, 0),
    ],
)
def test_a_vm_that_was_off_and_has_new_records_may_have_run(
    histories: Histories, seconds: float
) -> None:
    """All the time, where not all of them are known; and it started anew."""
    before = looked(1000, (7, False, GuestRecord(0, 900, 950)))
    now = looked(1060, (7, False, GuestRecord(3, 1030, 1030)))
    assert lacking(before, now, np.array([True])) == [7]
    assert seconds_run(before, now, histories).tolist() == [seconds]
    assert starts(before, now, histories) == {0: Starts(0.0, (seconds,) if seconds else (0, 0, 0))}


def test_a_vm_whose_new_records_are_left_out_counts_as_running() -> None:
    """With OpenNebula's clock hours behind, they seem to have ended long before the first look."""
    before = looked(9000, (7, True, GuestRecord(0, 900)))
    now = looked(9060, (7, False, GuestRecord(1, 1025, 1055)))
    assert seconds_run(before, now, {7: []}).tolist() == [60]
    assert seconds_run(before, now, {7: [GuestRecord(0, 900, 1020)]}).tolist() == [60]


def test_a_vm_that_ended_ran_until_its_end() -> None:
    """The page of recently ended VMs or the VM's history shows the end."""
    before = looked(1000, (7, True, GuestRecord(0, 900)), (8, True, GuestRecord(0, 900)))
    now = looked(1060, ended={7: GuestRecord(0, 900, 1020)})
    assert lacking(before, now, np.array([True, True])) == [8]
    assert seconds_run(before, now, {8: [GuestRecord(0, 900, 1005)]}).tolist() == [20, 5]


def test_a_running_vm_without_a_record_counts_as_running() -> None:
    """If the VM ran before, or may have: hiding a VM makes it no cheaper."""
    off = GuestRecord(0, 900, 910)
    before = looked(1000, (7, True, GuestRecord(0, 900)), (8, False, off), (9, False, NEVER))
    assert seconds_run(before, looked(1060), {}).tolist() == [60, 60, 0]


def test_a_placed_vm_that_can_never_be_read_counts_as_running() -> None:
    """A text that is too long makes no VM free."""
    before = looked(1000, (7, False, NEVER), (8, False, NEVER))
    placed = np.array([True, False])
    assert seconds_run(before, looked(1060), {}, placed).tolist() == [60, 0]
    # A page without a record for a VM means that it never ran.
    assert seconds_run(before, looked(1060), {7: []}, placed).tolist() == [0, 0]


def test_an_unreadable_vm_changes_no_other_vms_time() -> None:
    """Its record is outdated and shows no difference of clocks."""
    before = replace(
        looked(1000, (7, False, NEVER), (8, True, GuestRecord(0, 500))),
        records=LastRecords.of({7: NEVER}),
        hidden={8: 0},
    )
    now = looked(1060, (7, False, GuestRecord(0, 1010, 1040)), (8, True, GuestRecord(0, 500)))
    assert lacking(before, now, np.array([True, True])) == [8]
    assert seconds_run(before, now, {8: [GuestRecord(0, 500)]}).tolist() == [30, 60]
    assert seconds_run(before, now, {}).tolist() == [30, 60]
    assert seconds_run(before, now, {8: [GuestRecord(0, 500, 1020)]}).tolist() == [30, 20]


@pytest.mark.parametrize("differ_s", [-86_400, -300, 0, 1, 300, 86_400])
def test_clocks_may_differ(differ_s: int) -> None:
    """Over several looks no second is lost or paid twice, up to one interval."""
    zero_s = 1_000_000
    begun, ended = zero_s + 20 + differ_s, zero_s + 150 + differ_s
    looks = [
        looked(zero_s, (7, False, NEVER)),
        looked(zero_s + 60, (7, True, GuestRecord(0, begun))),
        looked(zero_s + 120, (7, True, GuestRecord(0, begun))),
        looked(zero_s + 180, (7, False, GuestRecord(0, begun, ended))),
    ]
    ran = [float(seconds_run(a, b, {})[0]) for a, b in pairwise(looks)]
    assert abs(sum(ran) - 130) <= 60
    assert ran[1] == 60


@pytest.mark.parametrize(
    "helper",
    [
        # It migrates again, an hour after the last time.
        [GuestRecord(0, 100, 500), GuestRecord(1, 500), GuestRecord(2)],
        # Its image has been copied to its host for a while.
        [GuestRecord(0, 100, 500), GuestRecord(1, 600, 700), GuestRecord(2)],
    ],
)
def test_a_vm_being_copied_changes_no_other_vms_time(helper: list[GuestRecord]) -> None:
    """Its older records were closed long ago and show no clock difference."""
    before = looked(1_000, (1, True, helper[-1]), (2, False, NEVER), (3, True, GuestRecord(0, 900)))
    now = looked(
        1_060,
        (1, True, helper[-1]),
        (2, True, GuestRecord(0, 1_005)),
        (3, False, GuestRecord(0, 900, 1_005)),
    )
    needed = lacking(before, now, np.ones(3, dtype=bool))
    assert needed == [1]
    seconds = seconds_run(before, now, {1: helper})
    assert seconds[1:].tolist() == [55, 5]
    assert seconds[0] == (60 if helper[1].ran_until_s == 0 else 0)


def test_a_time_in_the_future_changes_no_vms_time_after_the_clock_is_set_back() -> None:
    """One VM started while the clock was ahead; later records count as they are."""
    before = looked(
        1_000, (1, True, GuestRecord(0, 4_500)), (2, False, NEVER), (3, True, GuestRecord(0, 900))
    )
    now = looked(
        1_060,
        (1, True, GuestRecord(0, 4_500)),
        (2, True, GuestRecord(0, 1_005)),
        (3, False, GuestRecord(0, 900, 1_005)),
    )
    assert seconds_run(before, now, {}).tolist() == [60, 55, 5]


@pytest.mark.parametrize("odd", [400, 4_600])
def test_contradictory_times_change_no_other_vms_time(odd: int) -> None:
    """No difference of clocks places both between the two looks."""
    before = looked(1_000, (1, False, NEVER), (2, False, NEVER))
    now = looked(1_060, (1, True, GuestRecord(0, odd)), (2, False, GuestRecord(0, 1_005, 1_035)))
    assert seconds_run(before, now, {})[1] == 30


@pytest.mark.parametrize(("begun", "seconds"), [(999, 9), (998, 9), (997, 12)])
def test_rounding_to_seconds_is_no_difference_of_clocks(begun: int, seconds: float) -> None:
    """A record up to two seconds before the last look is rounded; an older one is not."""
    before = looked(1000, (7, False, NEVER))
    now = looked(1060, (7, False, GuestRecord(0, begun, 1009)))
    assert seconds_run(before, now, {}).tolist() == [seconds]


def test_a_clock_that_goes_back_charges_no_time() -> None:
    """This holds for one interval."""
    before, now = (
        looked(1000, (7, True, GuestRecord(0, 900))),
        looked(400, (7, True, GuestRecord(0, 900))),
    )
    assert seconds_run(before, now, {}).tolist() == [0]


def test_a_vm_that_ran_at_all_is_charged_for_the_minimum_time() -> None:
    """The time between the looks is the upper bound."""
    assert at_least(np.array([0.0, 1.0, 30.0]), 10, 60).tolist() == [0, 10, 30]
    assert at_least(np.array([0.0, 1.0]), 10, 5).tolist() == [0, 5]
