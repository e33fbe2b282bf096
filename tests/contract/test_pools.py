"""Pools: pages and their order, filters, the short form, and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.endpoint import HOST_CPU, HOST_MIB, SMALL
from tests.contract.ways import DONE

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

EXTENDED = "one.vmpool.infoextended"
ALL, MINE, OF_GROUPS, GROUPS = -2, -3, -4, -1
NOT_DONE, ANY, IS_DONE = -1, -2, 6


def test_vms_come_newest_first(endpoint: Endpoint) -> None:
    """Ids descend in both forms."""
    vms = [endpoint.new() for _ in range(5)]
    for method in ("one.vmpool.info", EXTENDED):
        assert list(endpoint.pool(method, ALL, -1, -1, NOT_DONE)) == vms[::-1]


@pytest.mark.parametrize(
    ("start", "end", "which"),
    [
        (0, -2, [4, 3]),
        (2, -2, [2, 1]),
        (4, -2, [0]),
        (5, -2, []),
        (99, -3, []),
        (0, -5, [4, 3, 2, 1, 0]),
        (0, -6, [4, 3, 2, 1, 0]),
        (-1, -1, [4, 3, 2, 1, 0]),
    ],
)
def test_pages_are_counted_from_the_newest(
    endpoint: Endpoint, start: int, end: int, which: list[int]
) -> None:
    """The page skips `start` VMs and has as many as `end` is below 0, at least two."""
    vms = [endpoint.new() for _ in range(5)]
    assert list(endpoint.pool(EXTENDED, ALL, start, end, NOT_DONE)) == [vms[row] for row in which]


def test_ranges_select_by_id(endpoint: Endpoint) -> None:
    """A range starts at an id, ends at another, or has one id."""
    vms = [endpoint.new() for _ in range(5)]

    def shown(start: int, end: int) -> list[int]:
        return [vms.index(vm) for vm in endpoint.pool(EXTENDED, ALL, start, end, NOT_DONE)]

    assert shown(vms[3], -1) == [4, 3]
    assert shown(vms[1], vms[3]) == [3, 2, 1]
    assert shown(vms[2], vms[2]) == [2]


def test_filters_by_state(endpoint: Endpoint) -> None:
    """A filter selects VMs that have not ended, any VMs, or one state."""
    held, over, waiting = endpoint.new(hold=True), endpoint.new(), endpoint.new()
    endpoint.act(over, "terminate", DONE)
    assert list(endpoint.pool(EXTENDED, ALL, -1, -1, NOT_DONE)) == [waiting, held]
    assert {held, over, waiting} <= set(endpoint.pool(EXTENDED, ALL, -1, -1, ANY))
    assert list(endpoint.pool(EXTENDED, ALL, -1, -1, 2)) == [held]
    assert next(iter(endpoint.pool(EXTENDED, ALL, 0, -2, IS_DONE))) == over


def test_filters_by_owner(endpoint: Endpoint) -> None:
    """A filter selects the caller's VMs, those of a user, or those of the caller's groups."""
    user, session = endpoint.user()
    mine, other = endpoint.new(session=session), endpoint.new()
    assert list(endpoint.pool(EXTENDED, MINE, -1, -1, NOT_DONE, session=session)) == [mine]
    assert list(endpoint.pool(EXTENDED, user, -1, -1, NOT_DONE)) == [mine]
    assert list(endpoint.pool(EXTENDED, MINE, -1, -1, NOT_DONE)) == [other]
    assert list(endpoint.pool(EXTENDED, ALL, -1, -1, NOT_DONE)) == [other, mine]
    assert list(endpoint.pool(EXTENDED, ALL, -1, -1, NOT_DONE, session=session)) == [mine]


def test_the_short_form_has_no_bids(endpoint: Endpoint) -> None:
    """It has no user attributes and no permissions, except for the scheduler's message."""
    vm = endpoint.new(SMALL + 'MERKAT_BID_CPU="3"\nSCHED_MESSAGE="wait"\n')
    short = endpoint.pool("one.vmpool.info", ALL, -1, -1, NOT_DONE)[vm]
    assert short.find("PERMISSIONS") is None
    assert short.find("USER_TEMPLATE/MERKAT_BID_CPU") is None
    assert short.findtext("USER_TEMPLATE/SCHED_MESSAGE") == "wait"
    assert short.findtext("TEMPLATE/MEMORY") == "512"
    long = endpoint.pool(EXTENDED, ALL, -1, -1, NOT_DONE)[vm]
    assert long.findtext("USER_TEMPLATE/MERKAT_BID_CPU") == "3"
    assert long.find("PERMISSIONS/OWNER_U") is not None


def test_pools_have_only_the_last_history_record(endpoint: Endpoint) -> None:
    """`vm.info` has all records; a VM that never ran has none, a pending one its old one."""
    vm, fresh = endpoint.running(), endpoint.new()
    endpoint.ok("one.vm.migrate", vm, endpoint.hosts[1], True)
    endpoint.until(lambda: 1 in endpoint.charged() and 0 not in endpoint.charged(), "migration")
    pool = endpoint.pool(EXTENDED, ALL, -1, -1, NOT_DONE)
    assert [row.text for row in pool[vm].iterfind("HISTORY_RECORDS/HISTORY/HID")] == [
        str(endpoint.hosts[1])
    ]
    assert len(pool[fresh].findall("HISTORY_RECORDS/HISTORY")) == 0
    assert len(endpoint.xml("one.vm.info", vm).findall("HISTORY_RECORDS/HISTORY")) == 2
    endpoint.act(vm, "undeploy", (9, 0))
    endpoint.act(vm, "resume", (1, 0))
    pending = endpoint.pool(EXTENDED, ALL, -1, -1, NOT_DONE)[vm]
    assert pending.findtext("HISTORY_RECORDS/HISTORY/HID") == str(endpoint.hosts[1])


# -- hosts --------------------------------------------------------------------------------------


def test_load_is_only_in_the_samples(endpoint: Endpoint) -> None:
    """The pool's MONITORING is empty; `monitoring(0)` has the last sample of each host."""
    for row in endpoint.pool("one.hostpool.info").values():
        assert row.find("MONITORING/*") is None

    def sampled() -> bool:
        rows = endpoint.xml("one.hostpool.monitoring", 0)
        return {int(row.findtext("ID") or "") for row in rows} == set(endpoint.hosts)

    endpoint.until(sampled, "samples of all hosts")
    rows = endpoint.xml("one.hostpool.monitoring", 0)
    assert rows.tag == "MONITORING_DATA"
    for row in rows:
        assert row.tag == "MONITORING"
        assert int(row.findtext("TIMESTAMP") or "-1") >= 0
        used, free = (int(row.findtext(f"CAPACITY/{name}_CPU") or "") for name in ("USED", "FREE"))
        assert used + free == HOST_CPU
        used, free = (
            int(row.findtext(f"CAPACITY/{name}_MEMORY") or "") for name in ("USED", "FREE")
        )
        assert used + free == HOST_MIB * 1024


def test_hosts_come_with_their_clusters_and_drivers(endpoint: Endpoint) -> None:
    """The newest is first; each is in the default cluster and monitored."""
    pool = endpoint.pool("one.hostpool.info")
    assert list(pool) == endpoint.hosts[::-1]
    for row in pool.values():
        assert (row.findtext("CLUSTER_ID"), row.findtext("CLUSTER")) == ("0", "default")
        assert (row.findtext("STATE"), row.findtext("VM_MAD")) == ("2", "dummy")
        assert row.findtext("TEMPLATE/HYPERVISOR") == "dummy"


@pytest.mark.parametrize(("status", "state"), [(1, "4"), (2, "8")])
def test_hosts_are_disabled_and_taken_offline(endpoint: Endpoint, status: int, state: str) -> None:
    """An offline host has a capacity of 0; once enabled it is monitored again."""
    host = endpoint.hosts[0]
    endpoint.ok("one.host.status", host, status)
    endpoint.until(
        lambda: endpoint.xml("one.host.info", host).findtext("STATE") == state, "the state"
    )
    assert endpoint.share(0)["MAX_CPU"] == (0 if status == 2 else HOST_CPU)
    endpoint.ok("one.host.status", host, 0)
    endpoint.until(
        lambda: endpoint.xml("one.host.info", host).findtext("STATE") == "2", "monitored again"
    )
    endpoint.until(lambda: endpoint.share(0)["MAX_CPU"] == HOST_CPU, "capacity")


def test_disabled_hosts_accept_vms_and_offline_hosts_refuse_them(endpoint: Endpoint) -> None:
    """Only the scheduler respects disabled hosts."""
    vm = endpoint.new()
    endpoint.ok("one.host.status", endpoint.hosts[0], 1)
    endpoint.ok("one.host.status", endpoint.hosts[1], 2)
    code, text = endpoint.refused("one.vm.deploy", vm, endpoint.hosts[1])
    assert code == 2048
    assert "offline" in text
    endpoint.ok("one.vm.deploy", vm, endpoint.hosts[0])
    endpoint.reaches(vm, (3, 3))
