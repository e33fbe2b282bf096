"""Starts and restarts that records show, and the cores that guests used before they had limits."""

import numpy as np
import pytest

from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.ports import UNKNOWN, GuestRecord, VmChange
from merkatd.scheduler.charging.attached_devices import times_without_limits
from merkatd.scheduler.charging.used_cpu import (
    NOTHING_COMPUTED,
    NOTHING_LIMITED,
    CpuCounters,
    NewlyLimited,
    seconds_beyond_shares,
)
from merkatd.scheduler.observation.looks import Look
from merkatd.scheduler.observation.running_time import Starts, begun_anew, starts
from tests.scheduler.recorded_looks import NEVER, looked


@pytest.mark.parametrize(
    ("history", "before_s", "since_s", "moved"),
    [
        ([GuestRecord(0, 900)], 0, 0, False),
        ([GuestRecord(0, 900, 1010), GuestRecord(1, 1040)], 10, 20, False),
        ([GuestRecord(0, 900, 1030), GuestRecord(1, 1030)], 30, 30, True),
        (
            [GuestRecord(0, 900, 1010), GuestRecord(1, 1020, 1030), GuestRecord(2, 1050)],
            20,
            10,
            False,
        ),
        # A migration whose new guest does not run yet.
        ([GuestRecord(0, 900), GuestRecord(1, 0)], 0, 0, False),
        # A VM that was changed while it ran, before and after it was off.
        ([GuestRecord(0, 900, 1010), GuestRecord(1, 1010, 0, goes_on=True)], 0, 0, False),
        (
            [
                *(GuestRecord(0, 900, 1010), GuestRecord(1, 1010, 1020, goes_on=True)),
                *(GuestRecord(2, 1025, 1040), GuestRecord(3, 1040, 0, goes_on=True)),
            ],
            20,
            35,
            False,
        ),
    ],
)
def test_records_show_which_guests_restarted(
    history: list[GuestRecord], before_s: float, since_s: float, moved: bool
) -> None:
    """They also give the running time before and after the restart."""
    before = looked(1000, (7, True, GuestRecord(0, 900)))
    now = looked(1060, (7, True, history[-1]))
    restarts = begun_anew(before, now, {7: history})
    assert (restarts.before_s.tolist(), restarts.since_s.tolist()) == ([before_s], [since_s])
    assert restarts.moved.tolist() == [moved]


VMS = {
    "vm": np.array([1, 2, 3, 4, 5]),
    "vcpus": np.full(5, 8),
    "allocation": np.tile([100.0, 512.0], (5, 1)),
}
"""Each VM has a share of one core."""


def test_a_guest_pays_for_cpu_used_before_it_had_limits() -> None:
    """Its counter decides, or all its virtual CPUs if unseen; its share is already paid."""
    starts_of_row = {
        0: Starts(20.0),
        1: Starts(20.0, (30.0, 2.0)),
        2: Starts(0.0, (9.0,)),
        3: Starts(3.0),
        4: Starts(20.0),
    }
    now = CpuCounters(np.array([1, 2, 4, 5]), np.array([50.0, 20.0, 20.0, 400.0]))
    limited = {1: [31.0], 2: [40.0, 25.0], 5: [5.0]}
    used = seconds_beyond_shares(VMS, starts_of_row, now, NewlyLimited(limited), 5.0)
    # VM 1: 50 less its share of 20. VM 2: no more than its share in the last guest, 40 less 5 in
    # the observed one, seven cores for 2 s in the unobserved one. VM 3: not observed, 5 s.
    # VM 5: seven cores for all of its 20 s, in which no host could be reached.
    assert used.tolist() == [30, 35 + 14, 35, 17, 140]


def test_an_unobserved_guest_pays_for_its_running_time() -> None:
    """Its host must have answered each look; otherwise it pays for five seconds."""
    arrays = VMS | {"host": np.array([7, 7, 8, 8, 8])}
    starts_of_row = {1: Starts(0.0, (40.0,)), 3: Starts(0.0, (40.0,))}
    limited = NewlyLimited(looked=frozenset({7}))
    used = seconds_beyond_shares(arrays, starts_of_row, NOTHING_COMPUTED, limited, 5.0)
    assert used.tolist() == [0, 7 * 40, 0, 7 * 5, 0]


def test_short_observed_guests_are_not_mistaken_for_long_ones() -> None:
    """A guest of 3 core-seconds ran for one second; that of 15 s was not observed.

    A host that is read every ten seconds leaves only part of that time unobserved.
    """
    arrays = VMS | {"host": np.array([7, 7, 8, 8, 8])}
    starts_of_row = {1: Starts(0.0, (15.0, 1.0)), 3: Starts(0.0, (15.0, 1.0))}
    limited = NewlyLimited({2: [3.0], 4: [90.0]}, frozenset({7, 8}), {7: 10.0, 8: 10.0})
    used = seconds_beyond_shares(arrays, starts_of_row, NOTHING_COMPUTED, limited, 5.0)
    assert used.tolist() == [0, 7 * 10, 0, 85 + 7 * 1, 0]


def test_a_vm_that_was_resized_may_have_had_more_virtual_cpus() -> None:
    """Its guests are bounded by the cores of a host, not by its size at the decision."""
    before = looked(1_000, (1, False, GuestRecord(0, 800, 900)), (2, False, GuestRecord(0, 1, 2)))
    now = looked(1_060, (1, False, GuestRecord(2, 1_010, 1_013)), (2, True, GuestRecord(1, 1_050)))
    history = {
        1: [GuestRecord(1, 1_005, 1_005, change=VmChange.SIZE), GuestRecord(2, 1_010, 1_013)]
    }
    starts_of_row = starts(before, now, history)
    assert starts_of_row == {0: Starts(0.0, (0, 3), resized=True), 1: Starts(10.0)}
    unseen = seconds_beyond_shares(VMS, starts_of_row, NOTHING_COMPUTED, NOTHING_LIMITED, 5.0, 64.0)
    assert unseen.tolist() == [63 * 3, 7 * 5, 0, 0, 0]


def test_a_replaced_domain_pays_for_what_was_seen_of_it() -> None:
    """An owner of many starts pays for all virtual CPUs: other domains may have come and gone."""
    arrays = VMS | {"often": np.array([False, False, True, False, False])}
    limited = NewlyLimited({1: [12.0]}, age_s={1: 20.0, 2: 0.0, 3: 0.0, 4: 20.0})
    now = CpuCounters(np.array([1, 2, 3, 4]), np.array([90.0, 9.0, 1.0, 90.0]))
    replaced_s = dict.fromkeys(range(4), 5.0)
    used = seconds_beyond_shares(arrays, {}, now, limited, 5.0, replaced_s=replaced_s)
    assert used.tolist() == [12, 9, 7 * 5, 0, 0]


def test_counters_of_an_owner_of_many_starts_are_not_believed() -> None:
    """After a recorded start the domain can be replaced before anyone sees its counter."""
    arrays = VMS | {"often": np.full(5, True), "host": np.full(5, 7)}
    starts_of_row = {0: Starts(20.0), 1: Starts(20.0), 2: Starts(0.0, (9.0,))}
    limited = NewlyLimited({1: [1.0], 3: [1.0]}, frozenset({7}), {7: 5.0})
    now = CpuCounters(np.array([1, 2]), np.array([1.0, 100.0]))
    used = seconds_beyond_shares(arrays, starts_of_row, now, limited, 5.0)
    assert used.tolist() == [7 * 5, 80, 7 * 5, 0, 0]


def test_starts_are_counted_from_records() -> None:
    """The first of a VM that waited, each of a VM that was on its host; not one that goes on.

    Nor does a VM start that is changed while it runs.
    """
    before = looked(
        1_000,
        (1, True, GuestRecord(0, 900)),
        (2, False, NEVER),
        (3, True, GuestRecord(0, 900)),
        (4, False, GuestRecord(3, 800, 900)),
        (5, True, GuestRecord(0, 900)),
        (6, False, GuestRecord(0, 800, 900)),
    )
    now = looked(
        1_060,
        (1, True, GuestRecord(2, 1_040)),
        (2, True, GuestRecord(0, 1_010)),
        (3, True, GuestRecord(0, 900)),
        (4, False, GuestRecord(4, 1_010, 1_050)),
        (5, True, GuestRecord(1, 1_010)),
        (6, True, GuestRecord(2, 1_030)),
    )
    history = {
        1: [GuestRecord(0, 900, 1_005), GuestRecord(1, 1_010, 1_030), GuestRecord(2, 1_040)],
        5: [GuestRecord(0, 900, 1_010), GuestRecord(1, 1_010, 0, goes_on=True)],
        6: [
            *(GuestRecord(0, 800, 900), GuestRecord(1, 1_020, 1_030)),
            GuestRecord(2, 1_030, 0, goes_on=True),
        ],
    }
    assert starts(before, now, history) == {
        0: Starts(20.0, (20.0,)),
        1: Starts(50.0),
        3: Starts(0.0, (40.0,)),
        5: Starts(40.0),
    }


@pytest.mark.parametrize(("new", "seconds"), [(3, 0), (4, 60), (UNKNOWN, 60)])
def test_an_unreadable_vm_has_no_new_device_without_a_new_record(new: int, seconds: float) -> None:
    """Its guest ran on: its limits are those that it had."""

    def look(at_s: float, number: int) -> Look:
        return Look(at_s, np.array([5]), np.array([True]), LastRecords.of({}), {5: number})

    devices = times_without_limits(look(0.0, 3), look(60.0, new), {})
    assert set(devices.get(0, {"network": 0}).values()) == {seconds}
