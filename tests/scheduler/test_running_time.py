"""A VM is charged for its running time between two observations, each second once."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from merkatd.database.ledger import usage_store
from merkatd.database.scheduler import period_store
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import OneVmState
from merkatd.opennebula.rpc.http_reply import TooLongError
from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.ports import (
    UNKNOWN,
    CloudUnreachableError,
    GuestRecord,
    Histories,
    VmChange,
)
from merkatd.scheduler.charging.attached_devices import times_without_limits
from merkatd.scheduler.charging.used_cpu import (
    NOTHING_COMPUTED,
    NOTHING_LIMITED,
    CpuCounters,
    NewlyLimited,
    seconds_beyond_shares,
)
from merkatd.scheduler.observation.looks import Look, look_of
from merkatd.scheduler.observation.running_time import (
    Starts,
    at_least,
    begun_anew,
    lacking,
    seconds_run,
    starts,
)
from tests.lengths import SOAK, shorten
from tests.long_texts import TOO_LONG, lower_limit
from tests.scheduler.frontend import PAPER_MARKET, QUICK, Frontend

NEVER = GuestRecord(-1)


def looked(at_s: float, *vms: tuple[int, bool, GuestRecord], ended: Any = None) -> Look:
    """Return a look at VMs: their ids, whether each runs, and their last records."""
    return Look(
        at_s,
        np.array([vm for vm, _, _ in vms], dtype=np.int64),
        np.array([runs for _, runs, _ in vms], dtype=bool),
        LastRecords.of({vm: record for vm, _, record in vms} | (ended or {})),
    )


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


def test_records_are_kept_of_all_readable_vms() -> None:
    """They need no history; a hidden VM is known by its id alone."""
    frontend = site()
    vms = [frontend.vm() for _ in range(2)]
    observation = frontend.periods(2).seen.observation
    runs = np.ones(len(vms), dtype=bool)
    look = look_of(observation, runs)
    assert look is not None
    assert set(look.records) == set(vms)
    hidden = look_of(replace(observation, ailing={vms[0]: "it is unreadable"}), runs)
    assert hidden is not None
    assert (set(hidden.records), set(hidden.hidden)) == ({vms[1]}, {vms[0]})
    assert look_of(replace(observation, records=None), runs) is None
    frontend.close()


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


# -- whole periods ------------------------------------------------------------------------------

QUIET = replace(QUICK, least_charge_s=10.0)


def site(**settings: Any) -> Frontend:
    """Return one host with a constant price."""
    return Frontend(hosts=1, markets=(PAPER_MARKET,), **settings)


def seconds_paid(frontend: Frontend, vm: int) -> list[float]:
    """Return the charged seconds of the VM by period, oldest first, without zero charges."""

    def read(connection: Any) -> list[float]:
        seconds = []
        for period in range(1, period_store.newest(connection).number + 1):  # type: ignore[union-attr]
            detail = usage_store.load(connection, period)
            if detail is not None and vm in detail.vm:
                seconds.append(float(detail.seconds[detail.vm.tolist().index(vm)]))
        return seconds

    paid: list[float] = frontend.read(read)
    return paid


def truth(frontend: Frontend, vm: int) -> float:
    """Return the VM's running time from OpenNebula's records."""
    records = frontend.bench.vm(vm).history
    now = frontend.cloud.world.stamp()
    return float(sum((record.retime or now) - record.rstime for record in records if record.rstime))


def test_a_vm_placed_and_ended_between_two_looks_pays() -> None:
    """It pays for the time that it ran."""
    frontend = site()
    vm = frontend.vm()
    frontend.period()
    frontend.clock.advance(50)
    assert frontend.state(vm) == "RUNNING"
    frontend.bench.ok("one.vm.action", "terminate-hard", vm)
    frontend.clock.advance(10)
    frontend.period()
    assert seconds_paid(frontend, vm) == [pytest.approx(truth(frontend, vm), abs=1)]
    assert truth(frontend, vm) > 20
    frontend.close()


@pytest.mark.parametrize("away", ["suspend", "poweroff-hard", *["stop", "undeploy-hard"] * SOAK])
def test_a_vm_that_is_off_at_each_observation_pays(away: str) -> None:
    """It pays for all its running time, whatever the observations showed."""
    frontend = site()
    vm = frontend.vm()
    frontend.periods(2)
    for _ in range(5):
        frontend.clock.advance(45)
        frontend.bench.ok("one.vm.action", away, vm)
        frontend.clock.advance(15)
        frontend.period()
        if frontend.bench.vm(vm).state is not OneVmState.ACTIVE:
            frontend.bench.ok("one.vm.action", "resume", vm)
        frontend.period()
    frontend.period()
    assert sum(seconds_paid(frontend, vm)) == pytest.approx(truth(frontend, vm), abs=12)
    frontend.close()


def test_a_vm_off_at_both_observations_pays_for_each_run_between_them() -> None:
    """Its last record is not enough: the earlier ones are read."""
    frontend = site()
    vm = frontend.vm()
    frontend.periods(2)
    frontend.bench.ok("one.vm.action", "poweroff-hard", vm)
    frontend.clock.advance(60)
    frontend.period()
    before = truth(frontend, vm)
    for _ in range(2):
        frontend.bench.ok("one.vm.action", "resume", vm)
        frontend.clock.advance(20)
        frontend.bench.ok("one.vm.action", "poweroff-hard", vm)
        frontend.clock.advance(5)
    frontend.clock.advance(10)
    frontend.period()
    ran = truth(frontend, vm) - before
    assert ran > 20
    assert seconds_paid(frontend, vm)[-1] == pytest.approx(ran, abs=2)
    frontend.close()


def test_a_vm_that_ran_for_a_moment_pays_for_the_minimum_time() -> None:
    """A guest ended soon after its boot costs as much as ten seconds."""
    frontend = site(rhythm=QUIET)
    vm = frontend.vm()
    frontend.periods(2)
    frontend.bench.ok("one.vm.action", "poweroff-hard", vm)
    frontend.clock.advance(60)
    frontend.period()
    before = truth(frontend, vm)
    frontend.bench.ok("one.vm.action", "resume", vm)
    frontend.clock.advance(8)
    frontend.bench.ok("one.vm.action", "poweroff-hard", vm)
    frontend.clock.advance(52)
    frontend.period()
    assert 0 < truth(frontend, vm) - before < QUIET.least_charge_s
    assert seconds_paid(frontend, vm)[-1] == QUIET.least_charge_s
    frontend.close()


def test_a_migration_changes_no_charged_second() -> None:
    """Each second is paid in one period."""
    frontend = Frontend(hosts=2, markets=(PAPER_MARKET,))
    vm = frontend.vm()
    frontend.periods(2)
    other = 1 - frontend.host_of(vm)
    frontend.bench.ok("one.vm.migrate", vm, other, True, False)
    frontend.periods(3)
    frontend.period()
    assert len(frontend.bench.vm(vm).history) > 1
    assert sum(seconds_paid(frontend, vm)) == pytest.approx(truth(frontend, vm), abs=2)
    frontend.close()


def test_a_vm_being_copied_does_not_pay_yet() -> None:
    """It pays from its boot on."""
    frontend = site()
    vm = frontend.vm()
    frontend.period()
    frontend.period()
    assert frontend.state(vm) != "RUNNING"
    assert seconds_paid(frontend, vm) == []
    frontend.close()


def test_no_charge_is_made_until_opennebula_reports_running_times() -> None:
    """The next period charges the time, once."""
    frontend = site()
    vm = frontend.vm()
    frontend.periods(2)
    frontend.period()
    frontend.clock.advance(20)
    frontend.bench.ok("one.vm.action", "poweroff-hard", vm)
    frontend.clock.advance(10)
    frontend.bench.ok("one.vm.action", "resume", vm)
    frontend.clock.advance(30)
    cloud = frontend.scheduler.world.cloud
    real = cloud.histories

    async def silent(vms: Any, _since_s: float) -> Histories:
        assert list(vms) == [vm]
        raise CloudUnreachableError("no answer")

    cloud.histories = silent  # type: ignore[assignment, method-assign]
    with pytest.raises(CloudUnreachableError):
        frontend.period()
    before = seconds_paid(frontend, vm)
    cloud.histories = real  # type: ignore[method-assign]
    frontend.clock.advance(30)
    frontend.period()
    assert len(seconds_paid(frontend, vm)) == len(before) + 1
    assert sum(seconds_paid(frontend, vm)) == pytest.approx(truth(frontend, vm), abs=2)
    frontend.close()


def test_after_an_hour_without_a_daemon_two_periods_are_charged() -> None:
    """No decision covers the rest of the hour."""
    frontend = site()
    vm = frontend.vm()
    frontend.periods(2)
    paid = sum(seconds_paid(frontend, vm))
    frontend.clock.advance(3600)
    frontend.start_daemon()
    frontend.period()
    assert sum(seconds_paid(frontend, vm)) - paid == 120
    frontend.close()


def test_a_text_that_is_too_long_changes_no_other_vms_time() -> None:
    """One VM is hidden for some looks; a neighbour pays for its own running time."""
    frontend = site()
    hider = frontend.vm()
    frontend.periods(3)
    with lower_limit():
        for turn in range(shorten(4, 2)):
            frontend.bench.ok("one.vm.update", hider, f'LONG="{TOO_LONG if turn % 2 else ""}"', 1)
            vm = frontend.vm()
            frontend.period()
            frontend.clock.advance(50)
            frontend.bench.ok("one.vm.action", "terminate-hard", vm)
            frontend.clock.advance(10)
            frontend.period()
            assert sum(seconds_paid(frontend, vm)) == pytest.approx(truth(frontend, vm), abs=2)
    frontend.close()


@pytest.mark.parametrize("answer", [TooLongError(1 << 25, ""), TimeoutError("no answer")])
def test_records_too_long_for_one_answer_are_read_one_by_one(
    answer: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the VM whose record is unreadable pays in full, and each period continues."""
    monkeypatch.setattr("merkatd.opennebula.pools.vm_history._FEW", 3)
    frontend = site(size=HostSize(800, 32_768))
    vms = [frontend.vm(VCPU=1, MEMORY=256) for _ in range(5)]
    real = frontend.transport.call

    async def call(method: str, *arguments: Any) -> Any:
        if method == "one.vmpool.accounting" or (method == "one.vm.info" and vms[-1] in arguments):
            raise answer if method == "one.vmpool.accounting" else TooLongError(1 << 25, "")
        if "vmpool.info" in method and arguments[-1] == 6:
            raise TooLongError(1 << 25, "")
        return await real(method, *arguments)

    monkeypatch.setattr(frontend.transport, "call", call)
    frontend.period()
    frontend.clock.advance(40)
    for vm in vms:
        frontend.bench.ok("one.vm.action", "terminate-hard", vm)
    frontend.clock.advance(20)
    frontend.periods(2)
    for vm in vms[:-1]:
        assert seconds_paid(frontend, vm) == [pytest.approx(truth(frontend, vm), abs=1)]
    assert seconds_paid(frontend, vms[-1]) == [pytest.approx(60, abs=5)]
    frontend.close()


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
