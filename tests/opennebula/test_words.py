"""Requirements of VMs, hosts and other objects, as oned writes them."""

from functools import partial
from pathlib import Path

import pytest

from merkatd.cluster import VmState
from merkatd.opennebula.pools.constraint_facts import (
    AccessRule,
    DiskLocation,
    GroupRule,
    NicWant,
    NumaWant,
    PciDevice,
    PciWant,
    Role,
    RoleMember,
    UserFacts,
    VmRequirements,
)
from merkatd.opennebula.pools.estate_pools import (
    read_clusters,
    read_datastores,
    read_groups,
    read_networks,
    read_rules,
    read_users,
    read_vm_groups,
)
from merkatd.opennebula.pools.host_pool import read_samples, with_facts
from merkatd.opennebula.pools.one_states import state_meaning
from merkatd.opennebula.pools.vm_pool import read_page, read_vm
from merkatd.opennebula.rpc.xml_elements import UnreadableError
from tests.opennebula.host_rows import read_hosts
from tests.opennebula.pool_texts import host, pool, vm

RECORDED = Path(__file__).parents[1] / "embedded" / "recorded"


def recorded(name: str) -> str:
    """Return the recorded text of a real server."""
    return (RECORDED / f"{name}.xml").read_text()


# -- VMs ----------------------------------------------------------------------------------------


def test_requirements_and_ranks_are_read() -> None:
    """The owner's are in the user template, oned's own in the template."""
    row = read_vm(
        vm(
            template="<AUTOMATIC_REQUIREMENTS>A=1</AUTOMATIC_REQUIREMENTS>"
            "<AUTOMATIC_DS_REQUIREMENTS>B=1</AUTOMATIC_DS_REQUIREMENTS>"
            "<SCHED_REQUIREMENTS>not here</SCHED_REQUIREMENTS>",
            user="<SCHED_REQUIREMENTS>C=1</SCHED_REQUIREMENTS><SCHED_RANK>R</SCHED_RANK>"
            "<SCHED_DS_REQUIREMENTS>D=1</SCHED_DS_REQUIREMENTS><RANK>old</RANK>"
            "<SCHED_DS_RANK>S</SCHED_DS_RANK>",
        )
    )
    assert row.wants == VmRequirements("A=1", "C=1", "B=1", "D=1", "R", "S")
    assert read_vm(vm(user="<RANK>old</RANK>")).wants.rank == "old"


def test_equal_requirements_are_one_object() -> None:
    """Most VMs of a cloud have the same."""
    given = "<AUTOMATIC_REQUIREMENTS>A=1</AUTOMATIC_REQUIREMENTS>"
    first, second, other = read_page(pool(vm(3, template=given), vm(2, template=given), vm(1))).vms
    assert first.wants is second.wants
    assert first.wants != other.wants


def disk(**words: object) -> str:
    """Return a disk."""
    given = {"SIZE": 100, "DATASTORE_ID": 1, "CLONE": "YES", "CLONE_TARGET": "SYSTEM", **words}
    parts = "".join(f"<{name}>{text}</{name}>" for name, text in given.items() if text is not None)
    return f"<DISK>{parts}</DISK>"


def test_space_for_disks_is_read() -> None:
    """It belongs to the system datastore, to the image's own or to none, with snapshots."""
    row = read_vm(
        vm(
            template=disk(DISK_SNAPSHOT_TOTAL_SIZE=11)
            + disk(TYPE="fs", CLONE=None, DATASTORE_ID=None)
            + disk(CLONE_TARGET="SELF")
            + disk(CLONE_TARGET="self", SIZE=7)
            + disk(CLONE="NO", LN_TARGET="SYSTEM", CLONE_TARGET="SELF")
            + disk(CLONE="NO", LN_TARGET="NONE")
            + disk(CLONE=None)
            + disk(SIZE="much")
        )
    )
    assert row.wants.system_mib == 111 + 100 + 100
    assert row.wants.image_mib == ((1, 107),)


def test_nics_devices_and_nodes_are_read() -> None:
    """Only NICs with automatic networks request one."""
    row = read_vm(
        vm(
            template="<AUTOMATIC_NIC_REQUIREMENTS>Z=1</AUTOMATIC_NIC_REQUIREMENTS>"
            "<NIC><NIC_ID>0</NIC_ID><NETWORK_ID>3</NETWORK_ID></NIC>"
            "<NIC><NIC_ID>1</NIC_ID><NETWORK_MODE>auto</NETWORK_MODE>"
            "<SCHED_REQUIREMENTS>Q=1</SCHED_REQUIREMENTS><SCHED_RANK>X</SCHED_RANK></NIC>"
            "<NIC><NIC_ID>2</NIC_ID><NETWORK_MODE>AUTO</NETWORK_MODE></NIC>"
            "<PCI><CLASS>0300</CLASS><VENDOR>10de</VENDOR><DEVICE>0863</DEVICE></PCI>"
            "<PCI><SHORT_ADDRESS>02:00.0</SHORT_ADDRESS></PCI>"
            "<TOPOLOGY><PIN_POLICY>core</PIN_POLICY><HUGEPAGE_SIZE>2</HUGEPAGE_SIZE></TOPOLOGY>"
            "<NUMA_NODE><TOTAL_CPUS>2</TOTAL_CPUS><MEMORY>524288</MEMORY></NUMA_NODE>"
        )
    )
    assert row.wants.nics == (NicWant(1, "Q=1", "X", "Z=1"), NicWant(2))
    assert row.wants.pcis == (PciWant("10de", "0863", "0300"), PciWant(address="02:00.0"))
    assert row.wants.numa == NumaWant("CORE", ((2, 512),), hugepage_mib=2)
    assert row.pinned
    assert not row.movable


@pytest.mark.parametrize(
    "template",
    [
        "<NIC><NETWORK_MODE>auto</NETWORK_MODE></NIC>",
        "<VMGROUP><VMGROUP_ID>x</VMGROUP_ID></VMGROUP>",
        "<TOPOLOGY><PIN_POLICY>CORE</PIN_POLICY></TOPOLOGY><NUMA_NODE><MEMORY>1</MEMORY></NUMA_NODE>",
    ],
)
def test_an_unreadable_requirement_is_an_error(template: str) -> None:
    """The VM is left alone instead of being placed on a wrong host."""
    with pytest.raises(UnreadableError, match="not a whole number"):
        read_vm(vm(template=template))


def test_group_flags_and_actions_are_read() -> None:
    """They are role, reschedule flag, priority and scheduled actions."""
    action = "<SCHED_ACTION><ACTION>stop</ACTION><TIME>5</TIME></SCHED_ACTION>"
    group = "<VMGROUP><ROLE>web</ROLE><VMGROUP_ID>4</VMGROUP_ID></VMGROUP>"
    row = read_vm(
        vm(
            RESCHED="<RESCHED>1</RESCHED>",
            template=group + action,
            user=f"<USER_PRIORITY>2.5</USER_PRIORITY>{action}",
        )
    )
    assert row.member == RoleMember(4, "web")
    assert (row.leaves, row.priority) == (True, 2.5)
    assert row.actions == ({"ACTION": "stop", "TIME": "5"},) * 2
    plain = read_vm(vm(user="<USER_PRIORITY>high</USER_PRIORITY>"))
    assert (plain.member, plain.leaves, plain.priority, plain.actions) == (None, False, 0.0, ())


@pytest.mark.parametrize(
    ("state", "action", "stay"),
    [
        ((3, 3), 0, DiskLocation(9, running=True)),
        ((5, 0), 10, DiskLocation(9, running=True)),
        ((8, 0), 19, DiskLocation(9, running=True)),
        ((4, 0), 9, DiskLocation(9, running=False)),
        ((9, 0), 5, DiskLocation(9, running=False)),
        ((1, 0), 9, DiskLocation(9, running=False)),
        ((1, 0), 6, DiskLocation(9, running=False)),
        ((1, 0), 14, None),
        ((6, 0), 27, None),
    ],
)
def test_the_location_of_disks_is_read(
    state: tuple[int, int], action: int, stay: DiskLocation | None
) -> None:
    """A recreated VM has a record and no disks."""
    record = f"<HISTORY><HID>4</HID><DS_ID>9</DS_ID><ACTION>{action}</ACTION></HISTORY>"
    text = vm(
        STATE=f"<STATE>{state[0]}</STATE>",
        LCM_STATE=f"<LCM_STATE>{state[1]}</LCM_STATE>",
        HISTORY_RECORDS=f"<HISTORY_RECORDS>{record}</HISTORY_RECORDS>",
    )
    assert read_vm(text).stay == stay


# -- hosts --------------------------------------------------------------------------------------


def test_a_recorded_host_is_read() -> None:
    """Attributes, devices and NUMA nodes are those of a real server."""
    rows = {row.id: row for row in read_hosts(recorded("hostpool_info"))}
    facts = rows[4].facts
    assert facts.values["NAME"] == ["host004-c32-m128"]
    assert facts.values["MAX_CPU"] == ["800"]
    assert facts.values["FREE_DISK"] == ["20480"]
    assert facts.disk_mib == 20480
    assert facts.pcis[0] == PciDevice("10de", "0863", "0300", "02:00.0")
    assert len(facts.pcis) == 3
    first, second = facts.numa
    assert (first.id, first.free_mib, second.id) == (0, 8192, 1)
    assert first.cores[0] == (4, 4, False)
    assert first.free_hugepages == {2: 1024, 1024: 1024}


def test_attributes_of_hosts_have_an_order_of_precedence() -> None:
    """Their own precede the last sample's and their cluster's."""
    row = host(
        1,
        TEMPLATE="<TEMPLATE><RACK>r1</RACK><TAG>a</TAG><TAG>b</TAG><V><W>x</W></V></TEMPLATE>",
    )
    samples = read_samples(
        "<MONITORING_DATA><MONITORING><ID>1</ID><CAPACITY><FREE_CPU>5</FREE_CPU>"
        "<USED_CPU>1</USED_CPU><USED_MEMORY>1</USED_MEMORY></CAPACITY></MONITORING>"
        "</MONITORING_DATA>"
    )
    _, words = read_clusters(
        "<CLUSTER_POOL><CLUSTER><ID>0</ID><NAME>c</NAME><TEMPLATE><RACK>all</RACK>"
        "<ZONE>z</ZONE></TEMPLATE></CLUSTER></CLUSTER_POOL>"
    )
    (facts_of_host,) = with_facts(read_hosts(f"<HOST_POOL>{row}</HOST_POOL>"), samples, words)
    values = facts_of_host.facts.values
    assert values["RACK"] == ["r1", "all"]
    assert (values["TAG"], values["FREE_CPU"], values["ZONE"]) == (["a", "b"], ["5"], ["z"])
    assert "W" not in values
    assert facts_of_host.facts.vms == {7}


def test_used_cores_are_read() -> None:
    """They are shared, dedicated, or isolated."""
    cores = (
        ("0:-1,1:7", "NO"),
        ("2:8,3:8", "YES"),
        ("4:-2,5:-1", "NO"),
    )
    node = "".join(
        f"<CORE><CPUS>{cpus}</CPUS><DEDICATED>{dedicated}</DEDICATED></CORE>"
        for cpus, dedicated in cores
    )
    share = "<MAX_MEM>1</MAX_MEM><MAX_CPU>1</MAX_CPU><NUMA_NODES><NODE>"
    share += f"{node}<NODE_ID>0</NODE_ID></NODE></NUMA_NODES>"
    (row,) = read_hosts(f"<HOST_POOL>{host(1, share)}</HOST_POOL>")
    assert row.facts.numa[0].cores == [(2, 1, False), (2, 0, True), (1, 1, False)]


# -- the rest -----------------------------------------------------------------------------------


def test_recorded_datastores_are_read() -> None:
    """They have kind, space, cluster and rights."""
    stores = {store.id: store for store in read_datastores(recorded("datastorepool_info"))}
    assert [stores[store].kind for store in (0, 1, 2)] == [1, 0, 2]
    system = stores[0]
    assert (system.name, system.usable, system.shared) == ("system", True, True)
    assert (system.free_mib, system.total_mib) == (3333260, 4796800)
    assert (system.clusters, system.permissions) == (frozenset({0}), 0o640)
    assert system.values["TM_MAD"] == ["dummy", "dummy"]


def test_a_limited_local_datastore_is_read() -> None:
    """LIMIT_MB counts like a smaller disk; SHARED = NO uses the hosts' space."""
    text = recorded("datastorepool_info").replace(
        "<SHARED><![CDATA[YES]]></SHARED>", "<SHARED>no</SHARED><LIMIT_MB>1500000</LIMIT_MB>"
    )
    system = {datastore.id: datastore for datastore in read_datastores(text)}[0]
    assert (system.free_mib, system.shared) == (1500000 - 1429920, False)


def test_networks_are_read() -> None:
    """Their leases are the rest of all address ranges."""
    ranges = "<AR><SIZE>10</SIZE></AR><AR><SIZE>5</SIZE></AR>"
    (network,) = read_networks(
        "<VNET_POOL><VNET><ID>3</ID><UID>2</UID><GID>1</GID><NAME>n</NAME><CLUSTERS><ID>0</ID>"
        "</CLUSTERS><PERMISSIONS><OTHER_U>1</OTHER_U></PERMISSIONS><USED_LEASES>4</USED_LEASES>"
        f"<TEMPLATE><COLOUR>red</COLOUR></TEMPLATE><AR_POOL>{ranges}</AR_POOL></VNET></VNET_POOL>"
    )
    assert (network.free_leases, network.permissions) == (11, 0o004)
    assert network.values["COLOUR"] == ["red"]


def test_users_groups_rules_and_clusters_are_read() -> None:
    """The texts are those of a real server."""
    assert read_users(recorded("userpool_info")) == {
        0: UserFacts(0, "oneadmin", (0,)),
        1: UserFacts(1, "serveradmin", (0,)),
    }
    assert read_groups(recorded("grouppool_info")) == {0: "oneadmin", 1: "users"}
    rules = {rule.id: rule for rule in read_rules(recorded("acl_info"))}
    assert rules[3] == AccessRule(3, 0x200000001, 0x2400000000, 2, 0x100000000)
    names, words = read_clusters(recorded("clusterpool_info"))
    assert names == {0: "default"}
    assert words == {0: {"RESERVED_CPU": [""], "RESERVED_MEM": [""]}}


def test_vm_groups_are_read() -> None:
    """They have roles with hosts, and rules between roles."""
    (group,) = read_vm_groups(
        "<VM_GROUP_POOL><VM_GROUP><ID>2</ID><NAME>g</NAME><ROLES><ROLE><ID>0</ID><NAME>a</NAME>"
        "<POLICY>anti_affined</POLICY><HOST_AFFINED>1, 2</HOST_AFFINED></ROLE><ROLE><ID>1</ID>"
        "<NAME>b</NAME><HOST_ANTI_AFFINED>3</HOST_ANTI_AFFINED></ROLE></ROLES><TEMPLATE>"
        "<AFFINED>a, b</AFFINED><ANTI_AFFINED>a,c</ANTI_AFFINED><ANTI_AFFINED>b,c</ANTI_AFFINED>"
        "</TEMPLATE></VM_GROUP></VM_GROUP_POOL>"
    )
    assert group == GroupRule(
        2,
        "g",
        (
            Role(0, "a", "ANTI_AFFINED", frozenset({1, 2})),
            Role(1, "b", host_anti_affined=frozenset({3})),
        ),
        affined=(("a", "b"),),
        anti_affined=(("a", "c"), ("b", "c")),
    )


def test_a_vm_group_with_too_many_roles_is_left_out() -> None:
    """Rules are read pair by pair, so the number of roles is limited."""
    role = "<ROLE><ID>1</ID><NAME>a</NAME></ROLE>"
    group = "<VM_GROUP><ID>{}</ID><NAME>g</NAME><ROLES>{}</ROLES><TEMPLATE/></VM_GROUP>"
    pool = (
        f"<VM_GROUP_POOL>{group.format(1, role * 33)}{group.format(2, role * 32)}</VM_GROUP_POOL>"
    )
    assert [group.id for group in read_vm_groups(pool)] == [2]


def test_an_unreadable_object_affects_only_itself() -> None:
    """A datastore without a name, a user without a group and an invalid rule are left out."""
    stores = recorded("datastorepool_info").replace("<NAME>files</NAME>", "")
    assert sorted(datastore.id for datastore in read_datastores(stores)) == [0, 1]
    users = recorded("userpool_info").replace("<ID>1</ID><GID>0</GID>", "<ID>1</ID>")
    assert list(read_users(users)) == [0]
    rules = recorded("acl_info").replace("<RIGHTS>8</RIGHTS>", "<RIGHTS>all</RIGHTS>")
    assert sorted(rule.id for rule in read_rules(rules)) == [1, 2, 3, 4, 5]


# -- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", ["HOTPLUG_NIC", "HOTPLUG_RESIZE", "DISK_SNAPSHOT", "BACKUP", "SHUTDOWN_POWEROFF"]
)
def test_a_vm_in_an_operation_of_its_owner_still_computes(words: str) -> None:
    """It stays limited for as long as the operation lasts."""
    (meaning,) = [
        meaning for meaning in map(partial(state_meaning, 3), range(80)) if meaning.words == words
    ]
    assert meaning.state is VmState.BUSY
    assert meaning.stays


@pytest.mark.parametrize("words", ["PROLOG", "BOOT", "MIGRATE", "SAVE_SUSPEND", "RUNNING"])
def test_vms_in_other_states_are_left_alone_or_limited_anyway(words: str) -> None:
    """A guest that arrives or leaves cannot be limited."""
    (meaning,) = [
        meaning for meaning in map(partial(state_meaning, 3), range(80)) if meaning.words == words
    ]
    assert not meaning.stays
