"""A VM pays for each second that it runs between two observations, once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.database.ledger import usage_store
from merkatd.database.scheduler import period_store
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import OneVmState
from merkatd.opennebula.rpc.http_reply import TooLongError
from merkatd.scheduler.base.ports import CloudUnreachableError, Histories
from merkatd.scheduler.observation.looks import look_of
from tests.lengths import SOAK, shorten
from tests.long_texts import TOO_LONG, lower_limit
from tests.scheduler.frontend import PAPER_MARKET, QUICK, Frontend

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
