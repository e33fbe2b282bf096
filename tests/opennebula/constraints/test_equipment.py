"""Scarce equipment: devices, and cores of one NUMA node."""

from collections.abc import Sequence

import pytest

from merkatd.opennebula.constraints import hardware, judge_feasibility
from merkatd.opennebula.pools.constraint_facts import (
    Node,
    NumaWant,
    PciDevice,
    PciWant,
    SiteFacts,
    VmRequirements,
)
from tests.opennebula.constraints.clouds import Vm, allowed_hosts, host, reason


class TestDevices:
    GPU = PciDevice("10de", "1db4", "0302", "01:00")
    NIC = PciDevice("8086", "10fb", "0200", "02:00")
    HOSTS = (
        host(0, pcis=[GPU, NIC]),
        host(1, pcis=[PciDevice("10de", "1db4", "0302", "01:00", vm=5), NIC]),
        host(2, pcis=[GPU, PciDevice("10de", "20b0", "0302", "03:00")]),
    )

    @pytest.mark.parametrize(
        ("wants", "left"),
        [
            ([PciWant(vendor="10DE")], ["h0", "h2"]),
            ([PciWant(vendor="10de"), PciWant(vendor="10de")], ["h2"]),
            ([PciWant(device="1db4"), PciWant(kind="0200")], ["h0"]),
            ([PciWant(vendor="10de", device="20b0")], ["h2"]),
            ([PciWant(address="02:00")], ["h0", "h1"]),
            ([PciWant(address="01:00"), PciWant(kind="0302")], ["h2"]),
            ([PciWant()], []),
        ],
    )
    def test_free_devices_match(self, wants: list[PciWant], left: list[str]) -> None:
        """Devices match by vendor, device, class or address, and each serves one VM."""
        assert allowed_hosts(self.HOSTS, wants=VmRequirements(pcis=tuple(wants))) == left

    def test_a_missing_device_is_named(self) -> None:
        """The reason has the requested device."""
        assert reason(self.HOSTS, wants=VmRequirements(pcis=(PciWant(vendor="dead"),))) == (
            "none of 3 hosts has a free PCI device for vendor dead"
        )

    def test_a_profile_matches(self) -> None:
        """It is the profile of a virtual GPU."""
        hosts = [host(0, pcis=[PciDevice("10de", "1", "3", "1", profiles=("nvidia-63",))])]
        assert allowed_hosts(
            hosts, wants=VmRequirements(pcis=(PciWant("10de", profile="nvidia-63"),))
        ) == ["h0"]
        assert (
            allowed_hosts(hosts, wants=VmRequirements(pcis=(PciWant("10de", profile="other"),)))
            == []
        )

    def test_a_vm_with_a_device_is_not_moved(self) -> None:
        """A VM pinned by OpenNebula is not moved either."""
        pci, numa = (
            VmRequirements(pcis=(PciWant("10de"),)),
            VmRequirements(numa=NumaWant("CORE", ((1, 1),))),
        )
        judged = judge_feasibility([Vm(wants=pci), Vm(wants=numa), Vm()], self.HOSTS, SiteFacts())
        assert judged.constraints.fixed.tolist() == [True, True, False]


def node(number: int, free: list[int], free_mib: int = 8192, **pages: int) -> Node:
    """Return a node whose cores have two threads."""
    cores = [(2, threads, False) for threads in free]
    return Node(number, cores, free_mib, {int(size[1:]): count for size, count in pages.items()})


class TestNuma:
    HOSTS = (
        host(0, numa=[node(0, [2, 2]), node(1, [2, 2])]),
        host(1, numa=[node(0, [1, 1, 1, 1]), node(1, [0], _2=1024)]),
        host(2, numa=[node(0, [2, 2, 2, 2], free_mib=100)]),
        host(3),
    )

    @pytest.mark.parametrize(
        ("want", "left"),
        [
            (NumaWant("CORE", ((2, 1024),)), ["h0"]),
            (NumaWant("CORE", ((2, 1024), (2, 1024))), ["h0"]),
            (NumaWant("CORE", ((3, 1024),)), []),
            (NumaWant("CORE", ((4, 50),)), ["h2"]),
            (NumaWant("THREAD", ((4, 1024),)), ["h0", "h1"]),
            (NumaWant("THREAD", ((4, 1024),), threads=2), ["h0"]),
            (NumaWant("THREAD", ((3, 1024),), threads=2), []),
            (NumaWant("THREAD", ((4, 4096), (4, 4096))), ["h0"]),
            (NumaWant("THREAD", ((4, 1024), (4, 1024), (4, 1024))), []),
            (NumaWant("NODE_AFFINITY", ((2, 1024),), node_affinity=1), ["h0", "h1"]),
            (NumaWant("NONE", ((2, 1024),), hugepage_mib=2), ["h1"]),
            (NumaWant("NONE", ((2, 4096),), hugepage_mib=2), []),
        ],
    )
    def test_cores_threads_memory_and_pages_must_be_free(
        self, want: NumaWant, left: list[str]
    ) -> None:
        """They must be free together on one node of the host."""
        assert allowed_hosts(self.HOSTS, wants=VmRequirements(numa=want)) == left

    def test_missing_room_on_nodes_is_named(self) -> None:
        """The reason has the pinning policy."""
        assert "PIN_POLICY CORE" in reason(
            self.HOSTS, wants=VmRequirements(numa=NumaWant("CORE", ((9, 1),)))
        )

    def test_equal_hosts_are_judged_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Equal VMs, equal hosts and later periods cost nothing more."""
        asked: list[NumaWant] = []
        spots = hardware.numa_placements

        def counted(want: NumaWant, nodes: Sequence[Node]) -> object:
            asked.append(want)
            return spots(want, nodes)

        monkeypatch.setattr(hardware, "numa_placements", counted)
        hosts = [host(row, numa=[node(0, [2, 2]), node(1, [2, row // 5])]) for row in range(10)]
        want = NumaWant("CORE", ((4, 1024),))
        vms = [
            Vm(vm, wants=VmRequirements(numa=want, requirements=f"ID > {vm}")) for vm in range(5)
        ]
        judged = judge_feasibility(vms, hosts, SiteFacts())
        assert asked == [want, want]
        hosts[9] = host(9, numa=[node(0, [2, 2, 2])])
        again = judge_feasibility(vms, hosts, SiteFacts(), judged.tables)
        assert asked == [want, want, want]
        fresh = judge_feasibility(vms, hosts, SiteFacts())
        assert (again.constraints.allowed == fresh.constraints.allowed).all()
