"""Pools: order, pages, filters, and omitted elements."""

from __future__ import annotations

import pytest

from tests.embedded.support import Bench, xml


def ids(text: str) -> list[int]:
    """Return the ids of the objects in a pool, in its order."""
    return [int(row.findtext("ID", "")) for row in xml(text)]


def test_ids_are_in_descending_order() -> None:
    """Every pool shows the newest object first."""
    bench = Bench()
    for _ in range(3):
        bench.new()
    assert ids(bench.ok("one.vmpool.info", -2, -1, -1, -1)) == [2, 1, 0]
    assert ids(bench.ok("one.hostpool.info")) == [2, 1, 0]
    assert ids(bench.ok("one.datastorepool.info")) == [2, 1, 0]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (-1, -1, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (0, -4, [9, 8, 7, 6]),
        (4, -4, [5, 4, 3, 2]),
        (8, -4, [1, 0]),
        (12, -4, []),
        (3, 5, [5, 4, 3]),
        (7, -1, [9, 8, 7]),
    ],
)
def test_pages_and_ranges_select_objects(start: int, end: int, expected: list[int]) -> None:
    """A negative end is the length of a page, and other ends are ids."""
    bench = Bench()
    for _ in range(10):
        bench.new()
    for method in ("one.vmpool.info", "one.vmpool.infoextended"):
        assert ids(bench.ok(method, -2, start, end, -1)) == expected


def test_pools_are_filtered_by_owner_and_state() -> None:
    """Filters are own, own groups', one user's; and without DONE, with DONE, or one state."""
    bench = Bench()
    ann = bench.user("ann")
    mine, other, done = bench.new(session=ann), bench.new(), bench.new()
    bench.ok("one.vm.action", "terminate", done)
    assert ids(bench.ok("one.vmpool.info", -3, -1, -1, -1, session=ann)) == [mine]
    assert ids(bench.ok("one.vmpool.info", 2, -1, -1, -1)) == [mine]
    assert ids(bench.ok("one.vmpool.info", -1, -1, -1, -1)) == [other]
    assert ids(bench.ok("one.vmpool.info", -2, -1, -1, 6)) == [done]
    assert ids(bench.ok("one.vmpool.info", -2, -1, -1, -2)) == [done, other, mine]
    assert ids(bench.ok("one.vmpool.info", -2, -1, -1, 1)) == [other, mine]
    assert bench.refused("one.vmpool.info", -9, -1, -1, -1)[0] == 4096


def test_the_short_pool_omits_attributes() -> None:
    """Only infoextended has custom attributes and permissions, and vm.info the whole history."""
    bench = Bench()
    vm_id = bench.running('CPU=1 MEMORY=64 MERKAT_BID_CPU=3 SCHED_REQUIREMENTS="ID=4"')
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.advance(5)
    short = xml(bench.ok("one.vmpool.info", -2, -1, -1, -1))
    assert short.find(".//MERKAT_BID_CPU") is None
    assert short.find(".//PERMISSIONS") is None
    assert short.findtext(".//SCHED_REQUIREMENTS") == "ID=4"
    full = xml(bench.ok("one.vmpool.infoextended", -2, -1, -1, -1))
    assert full.findtext(".//MERKAT_BID_CPU") == "3"
    assert [row.findtext("SEQ") for row in full.iter("HISTORY")] == ["1"]
    assert [row.findtext("SEQ") for row in xml(bench.ok("one.vm.info", vm_id)).iter("HISTORY")] == [
        "0",
        "1",
    ]


def test_a_pending_vm_may_have_a_history() -> None:
    """After stop and resume it is PENDING with its old host as the last record."""
    bench = Bench()
    vm_id = bench.running()
    bench.ok("one.vm.action", "stop", vm_id)
    bench.advance(5)
    bench.ok("one.vm.action", "resume", vm_id)
    row = xml(bench.ok("one.vmpool.infoextended", -2, -1, -1, -1))[0]
    assert (row.findtext("STATE"), row.findtext(".//HID")) == ("1", "0")


def test_the_host_pool_omits_monitoring() -> None:
    """MONITORING is empty there; hostpool.monitoring(0) has the last sample of each host."""
    bench = Bench(hosts=2)
    bench.running()
    bench.advance(130)
    pool = xml(bench.ok("one.hostpool.info"))
    assert [len(row) for row in pool.iter("MONITORING")] == [0, 0]
    samples = xml(bench.ok("one.hostpool.monitoring", 0))
    used = {row.findtext("ID"): row.findtext("CAPACITY/USED_CPU") for row in samples}
    assert used == {"0": "100", "1": "0"}
    everything = xml(bench.ok("one.hostpool.monitoring", -1))
    assert len(everything) == 4
    assert len(xml(bench.ok("one.vmpool.monitoring", -2, 70))) == 1


def test_cached_texts_are_dropped_when_objects_change() -> None:
    """Every call that changes a VM or a host shows in the next pool."""
    bench = Bench()
    vm_id = bench.new()

    def pools() -> tuple[str, str, str]:
        return (
            bench.ok("one.vmpool.info", -2, -1, -1, -1),
            bench.ok("one.vmpool.infoextended", -2, -1, -1, -1),
            bench.ok("one.hostpool.info"),
        )

    before = pools()
    assert pools() == before
    bench.ok("one.vm.rename", vm_id, "other")
    renamed = pools()
    assert renamed[0] != before[0]
    assert renamed[1] != before[1]
    bench.ok("one.vm.deploy", vm_id, 0)
    bench.advance(5)
    assert pools()[2] != before[2]
    bench.ok("one.cluster.addhost", int(bench.ok("one.cluster.allocate", "c")), 1)
    assert "<CLUSTER>c</CLUSTER>" in bench.ok("one.hostpool.info")


def test_vm_groups_and_networks_are_listed() -> None:
    """A VM joins the role that its template names."""
    bench = Bench()
    group = bench.ok(
        "one.vmgroup.allocate", 'NAME=g ROLE=[NAME="web", POLICY="ANTI_AFFINED"] ROLE=[NAME="db"]'
    )
    vm_id = bench.new(f'CPU=1 MEMORY=64 VMGROUP=[VMGROUP_ID="{group}", ROLE="web"]')
    pool = xml(bench.ok("one.vmgrouppool.info", -2, -1, -1))
    assert pool.findtext("VM_GROUP/ROLES/ROLE[NAME='web']/VMS") == str(vm_id)
    assert bench.refused("one.vmgroup.allocate", "ROLE=[NAME=x]")[0] == 8192
    bench.ok("one.vn.allocate", "NAME=lan BRIDGE=br0")
    assert ids(bench.ok("one.vnpool.info", -2, -1, -1)) == [0]
