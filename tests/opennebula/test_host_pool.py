"""From the text of hosts to rows, and from both pools to the places of VMs."""

import pytest

from merkatd.cluster import VmState
from merkatd.opennebula.observation_builder import Pools, observed
from merkatd.opennebula.pools.host_pool import HostLoad, HostPool, read_samples
from merkatd.opennebula.pools.vm_pool import read_page, read_vm
from tests.opennebula.host_rows import read_hosts
from tests.opennebula.pool_texts import host, pool, vm


def test_a_host_is_read() -> None:
    """It has its capacity in percent of a core and MiB, and its VMs."""
    (row,) = read_hosts(f"<HOST_POOL>{host(2)}</HOST_POOL>")
    assert row[:7] == (2, "host2", 0, 2, 800.0, 1024.0, (7,))


def test_an_unreadable_host_affects_only_itself() -> None:
    """It is left out, and an overcommitted host has no capacity."""
    short = host(2, "<MAX_MEM>-1024</MAX_MEM><MAX_CPU>-100</MAX_CPU>")
    text = f"<HOST_POOL>{host(4)}{host(3, STATE='')}{short}{host(1, HOST_SHARE='')}</HOST_POOL>"
    rows = {row.id: row for row in read_hosts(text)}
    assert sorted(rows) == [2, 4]
    assert (rows[2].cpu, rows[2].memory_mib) == (0.0, 0.0)


def test_samples_are_read_by_host() -> None:
    """Unreadable ones are left out."""
    good = "<MONITORING><ID>1</ID><CAPACITY><USED_CPU>50</USED_CPU><USED_MEMORY>2048</USED_MEMORY>"
    good += "</CAPACITY></MONITORING>"
    bad = "<MONITORING><ID>2</ID><CAPACITY><USED_CPU>x</USED_CPU></CAPACITY></MONITORING>"
    text = f"<MONITORING_DATA>{good}{bad}<MONITORING/></MONITORING_DATA>"
    words = {"USED_CPU": ["50"], "USED_MEMORY": ["2048"]}
    assert read_samples(text) == {1: HostLoad(50.0, 2.0, words)}
    assert read_samples("<MONITORING_DATA/>") == {}


def test_a_host_with_invalid_xml_affects_only_itself() -> None:
    """The others are read one by one, and a text like a tag is no border."""
    odd = host(2, TEMPLATE="<TEMPLATE><A><![CDATA[</HOST><HOST><ID>9</ID>]]></A></TEMPLATE>")
    text = f"<HOST_POOL>{host(3)}{odd}{host(1)}</HOST_POOL>"
    assert [row.id for row in read_hosts(text)] == [3, 2, 1]
    broken = f"<HOST_POOL>{host(3)}{host(2, NAME='<NAME>a & b</NAME>')}{host(1)}</HOST_POOL>"
    assert [row.id for row in read_hosts(broken)] == [3, 1]


def test_an_unchanged_host_is_not_parsed_again() -> None:
    """It gives the same row, and a changed one another row."""
    pool_of = "<HOST_POOL>{}{}</HOST_POOL>".format
    hosts = HostPool()
    before = hosts.read(pool_of(host(2), host(1)))
    after = hosts.read(pool_of(host(2), host(1, VMS="<VMS><ID>8</ID></VMS>")))
    assert after[0] is before[0]
    assert (before[1].vms, after[1].vms) == ((7,), (8,))


def test_the_allocation_of_unreadable_vms_is_excluded() -> None:
    """A host's capacity is reduced by its allocations beyond the known VMs."""
    share = "<MAX_MEM>4194304</MAX_MEM><MAX_CPU>800</MAX_CPU>"
    share += "<CPU_USAGE>400</CPU_USAGE><MEM_USAGE>1572864</MEM_USAGE>"
    hosts = f"<HOST_POOL>{host(4, share, VMS='<VMS><ID>1</ID><ID>2</ID></VMS>')}</HOST_POOL>"
    page = read_page(pool(vm(2, STATE=""), vm(1)))
    assert list(page.ailing) == [2]
    seen = observed(Pools(page.vms, [], page.ailing, read_hosts(hosts), {}), 0.0).observation
    assert seen.host_capacity.tolist() == [[800 - 300, 4096 - 1024]]
    page = read_page(pool(vm(2), vm(1)))
    seen = observed(Pools(page.vms, [], page.ailing, read_hosts(hosts), {}), 0.0).observation
    assert seen.host_capacity.tolist() == [[800, 4096]]


# -- where VMs are ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "charged", "state", "where"),
    [
        ((3, 3), [4], VmState.RUNNING, 4),
        ((3, 3), [], VmState.RUNNING, 4),
        ((3, 3), [2], VmState.BUSY, 2),
        ((3, 3), [2, 4], VmState.BUSY, 2),
        ((3, 4), [2, 4], VmState.BUSY, 2),
        ((3, 35), [4], VmState.BUSY, 4),
        ((5, 0), [2], VmState.BUSY, 2),
        ((8, 0), [4], VmState.POWERED_OFF, 4),
        ((1, 0), [4], VmState.PENDING, -1),
        ((3, 36), [4], VmState.ABSENT, 4),
    ],
)
def test_hosts_determine_where_a_vm_comes_from(
    numbers: tuple[int, int], charged: list[int], state: VmState, where: int
) -> None:
    """The record has host 4, and the hosts that list the VM may differ."""
    text = vm(
        7, STATE=f"<STATE>{numbers[0]}</STATE>", LCM_STATE=f"<LCM_STATE>{numbers[1]}</LCM_STATE>"
    )
    hosts = "".join(
        host(number, VMS="<VMS><ID>7</ID></VMS>" if number in charged else "<VMS/>")
        for number in range(5)
    )
    pools = Pools([read_vm(text)], [], {}, read_hosts(f"<HOST_POOL>{hosts}</HOST_POOL>"), {})
    seen = observed(pools, 0.0).observation
    assert (VmState(int(seen.vm_state[0])), int(seen.vm_host[0])) == (state, where)
    goes = state is VmState.BUSY and where == 2
    assert seen.vm_coming is not None
    assert seen.vm_coming.tolist() == [4 if goes else -1]
