"""History records: running times in one.vm.info, in pools and in one.vmpool.accounting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.contract.ways import DONE, OFF, RUNNING, STOPPED, SUSPENDED, UNDEPLOYED

if TYPE_CHECKING:
    from lxml import etree

    from tests.contract.endpoint import Endpoint, State


class Record(NamedTuple):
    """A history record: its number and its times, 0 if not set."""

    seq: int
    began: int
    ended: int
    ran_from: int
    ran_until: int
    action: int


def record(shown: etree._Element) -> Record:
    """Read one record."""
    names = ("SEQ", "STIME", "ETIME", "RSTIME", "RETIME", "ACTION")
    return Record(*(int(shown.findtext(name) or "") for name in names))


def records(endpoint: Endpoint, vm: int) -> list[Record]:
    """Return all records of a VM, oldest first."""
    shown = endpoint.xml("one.vm.info", vm)
    return [record(element) for element in shown.iterfind("HISTORY_RECORDS/HISTORY")]


def await_second_after(endpoint: Endpoint, at_s: int) -> None:
    """Wait until the server writes a later second than this."""

    def later() -> bool:
        endpoint.pause(0.3)
        made = endpoint.xml("one.vm.info", endpoint.new(hold=True)).findtext("STIME")
        return int(made or "") > at_s

    endpoint.until(later, "the next second")


def test_a_vm_that_runs_has_an_open_record(endpoint: Endpoint) -> None:
    """RSTIME is set, RETIME and ETIME are not."""
    (only,) = records(endpoint, endpoint.running())
    assert only.seq == 0
    assert only.ran_from >= only.began > 0
    assert only[2:] == (0, only.ran_from, 0, 0)


@pytest.mark.parametrize(
    ("action", "end", "held"),
    [
        ("suspend", SUSPENDED, True),
        ("poweroff-hard", OFF, True),
        ("stop", STOPPED, False),
        ("undeploy-hard", UNDEPLOYED, False),
        ("terminate-hard", DONE, False),
    ],
)
def test_the_record_of_a_vm_that_stops_has_its_end(
    endpoint: Endpoint, action: str, end: State, *, held: bool
) -> None:
    """RETIME is always set; ETIME is set if the VM leaves its host."""
    vm = endpoint.running()
    endpoint.act(vm, action, end)
    (only,) = records(endpoint, vm)
    assert only.ran_until >= only.ran_from > 0
    assert (only.ended == 0) is held


@pytest.mark.parametrize(("action", "end"), [("suspend", SUSPENDED), ("poweroff-hard", OFF)])
def test_a_resumed_vm_has_another_record(endpoint: Endpoint, action: str, end: State) -> None:
    """The previous record keeps its running time."""
    vm = endpoint.running()
    endpoint.act(vm, action, end)
    (before,) = records(endpoint, vm)
    endpoint.act(vm, "resume", RUNNING)
    first, second = records(endpoint, vm)
    assert (first.seq, second.seq) == (0, 1)
    assert first.ran_until == before.ran_until
    assert first.ended == second.began == second.ran_from
    assert second[2:] == (0, second.ran_from, 0, 0)


def test_a_vm_deployed_again_has_another_record(endpoint: Endpoint) -> None:
    """The stop closed the first one."""
    vm = endpoint.in_state(STOPPED)
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[1])
    endpoint.reaches(vm, RUNNING)
    first, second = records(endpoint, vm)
    assert second.ran_from >= first.ended >= first.ran_until > 0
    assert second.ran_until == second.ended == 0


def test_a_live_migration_divides_the_time_without_a_gap(endpoint: Endpoint) -> None:
    """The second record starts when the first one ends."""
    vm = endpoint.running()
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], True, False, -1, 0)
    endpoint.until(lambda: endpoint.charged() == {1: (100, 512, 1)}, "migration")
    endpoint.reaches(vm, RUNNING)
    first, second = records(endpoint, vm)
    assert first.ran_until == first.ended == second.ran_from > 0
    assert second.ran_until == second.ended == 0


@pytest.mark.parametrize(("state", "runs"), [(RUNNING, True), (OFF, False)])
def test_a_resize_divides_the_time_without_a_gap(
    endpoint: Endpoint, state: State, *, runs: bool
) -> None:
    """The second record of a powered-off VM has no duration."""
    vm = endpoint.in_state(state)
    endpoint.ok("one.vm.resize", vm, "CPU=2\nMEMORY=1024\nVCPU=2", False)
    endpoint.reaches(vm, state)
    first, second = records(endpoint, vm)
    assert first.action == 35
    assert first.ended == second.ran_from
    assert first.ran_until > 0
    assert (second.ran_until == 0) is runs


def test_a_vm_that_ends_while_off_ran_until_it_was_off(endpoint: Endpoint) -> None:
    """Its end does not count."""
    vm = endpoint.in_state(OFF)
    (before,) = records(endpoint, vm)
    await_second_after(endpoint, before.ran_until)
    endpoint.act(vm, "terminate-hard", DONE)
    (after,) = records(endpoint, vm)
    assert after.ran_until == before.ran_until < after.ended


def test_pools_have_the_last_record_with_its_times(endpoint: Endpoint) -> None:
    """The extended form has it, also for ended VMs."""
    vm = endpoint.running()
    endpoint.act(vm, "suspend", SUSPENDED)
    endpoint.act(vm, "resume", RUNNING)
    pool = endpoint.pool("one.vmpool.infoextended", -2, 0, -100, -1)
    assert [record(element) for element in pool[vm].iterfind("HISTORY_RECORDS/HISTORY")] == [
        records(endpoint, vm)[-1]
    ]
    endpoint.act(vm, "terminate-hard", DONE)
    pool = endpoint.pool("one.vmpool.infoextended", -2, 0, -100, 6)
    assert record(pool[vm].findall("HISTORY_RECORDS/HISTORY")[-1]) == records(endpoint, vm)[-1]


def accounting(endpoint: Endpoint, start_s: int, end_s: int, vms: list[int]) -> list[list[int]]:
    """Return VM and number of each accounting record of these VMs."""
    shown = endpoint.xml("one.vmpool.accounting", -2, start_s, end_s)
    assert shown.tag == "HISTORY_RECORDS"
    records = [[int(element.findtext("OID") or ""), record(element).seq] for element in shown]
    return [pair for pair in records if pair[0] in vms]


def test_accounting_has_all_records_with_their_vms(endpoint: Endpoint) -> None:
    """They are sorted by VM and number, include ended VMs and have the VM's template."""
    done, runs = endpoint.running(), endpoint.running()
    endpoint.act(done, "suspend", SUSPENDED)
    endpoint.act(done, "resume", RUNNING)
    endpoint.act(done, "terminate-hard", DONE)
    assert accounting(endpoint, -1, -1, [done, runs]) == [[done, 0], [done, 1], [runs, 0]]
    shown = endpoint.xml("one.vmpool.accounting", -2, -1, -1)
    mine = [element for element in shown if element.findtext("OID") == str(done)]
    assert [record(element) for element in mine] == records(endpoint, done)
    assert {element.findtext("VM/TEMPLATE/MEMORY") for element in mine} == {"512"}


def test_accounting_is_limited_in_time(endpoint: Endpoint) -> None:
    """Records that end by its start, or begin at its end, are left out."""
    vm = endpoint.running()
    endpoint.act(vm, "suspend", SUSPENDED)
    (only,) = records(endpoint, vm)
    await_second_after(endpoint, only.ran_until)
    endpoint.act(vm, "resume", RUNNING)
    first, second = records(endpoint, vm)
    assert accounting(endpoint, first.ended - 1, -1, [vm]) == [[vm, 0], [vm, 1]]
    assert accounting(endpoint, first.ended, -1, [vm]) == [[vm, 1]]
    assert accounting(endpoint, -1, second.began, [vm]) == [[vm, 0]]
    assert accounting(endpoint, -1, second.began + 1, [vm]) == [[vm, 0], [vm, 1]]


def test_accounting_refuses_unknown_filters(endpoint: Endpoint) -> None:
    """These are filters below that for the caller's group."""
    code, text = endpoint.refused("one.vmpool.accounting", -5, -1, -1)
    assert "Incorrect filter_flag" in text
    assert code == 4096
