"""Requests of VMs for devices and NUMA nodes, histories, scheduled actions, and texts of hosts."""

from merkatd.opennebula.constraints.hardware import assigned_devices, numa_placements
from merkatd.opennebula.pools.constraint_facts import Node, PciDevice
from merkatd.opennebula.pools.host_pool import HostPool
from merkatd.opennebula.pools.vm_history import _of_one
from merkatd.opennebula.pools.vm_pool import read_page
from merkatd.opennebula.pools.vm_templates import _wants
from merkatd.opennebula.rpc.xml_elements import BrokenError, UnreadableError
from merkatd.opennebula.scheduled_actions import call, done, due_actions, failed, template
from tests.worst.search import Parser

VM_BYTES = 1 << 19
"""The size of a VM in oned's XML: more than users can write into one."""
HOST_BYTES = 1 << 18
"""The size of a host in oned's XML: hundreds of devices take half of it."""
NOW = 1_678_881_600.0
_REFUSES = (ValueError, BrokenError, UnreadableError)
_DEVICES = [PciDevice("10de", "1db6", "0302", f"{row:02x}:00.0") for row in range(256)]
"""The devices of one host: more than a real host has."""
_NODES = [Node(row, [(2, 2, False)] * 32, 1 << 18, {2: 1 << 16, 1024: 1 << 8}) for row in range(8)]
_VM = (
    "<VM><ID>1</ID><UID>3</UID><GID>1</GID><UNAME>ann</UNAME><GNAME>g</GNAME><NAME>v</NAME>"
    "<PERMISSIONS><OWNER_U>1</OWNER_U></PERMISSIONS><STATE>1</STATE><LCM_STATE>0</LCM_STATE>"
    "<RESCHED>0</RESCHED><STIME>1</STIME><ETIME>0</ETIME><DEPLOY_ID/>"
    "<TEMPLATE><CPU>1</CPU><MEMORY>64</MEMORY>"
)
_REST = "</TEMPLATE><USER_TEMPLATE/><HISTORY_RECORDS/></VM>"
_PINNED = f"{_VM}<TOPOLOGY><PIN_POLICY>THREAD</PIN_POLICY></TOPOLOGY>"
_HOST = (
    "<HOST><ID>1</ID><NAME>a</NAME><STATE>2</STATE><CLUSTER_ID>0</CLUSTER_ID>"
    "<HOST_SHARE><MAX_CPU>100</MAX_CPU><MAX_MEM>100</MAX_MEM>"
)


def _placed(text: str) -> None:
    """Read a VM, and search a host for the devices and NUMA nodes that the VM requests."""
    _wants.cache_clear()
    for vm in read_page(f"<VM_POOL>{text}</VM_POOL>").vms:
        assigned_devices(vm.wants.pcis, _DEVICES)
        if vm.wants.numa is not None:
            numa_placements(vm.wants.numa, _NODES)


def _due(text: str) -> None:
    """Read a VM and compute everything that a period computes for its scheduled actions."""
    for vm in read_page(f"<VM_POOL>{text}</VM_POOL>").vms:
        for due in due_actions(vm.actions, NOW, vm.made_s):
            template(done(due.action, NOW, vm.made_s))
            template(failed(due.action, NOW, "why"))
            call(due, vm.id)


def _host(text: str) -> None:
    for host in HostPool().read(f"<HOST_POOL>{text}</HOST_POOL>"):
        list(host.facts.pcis)
        list(host.facts.numa)


def _history(text: str) -> None:
    _of_one(f"<VM><HISTORY_RECORDS>{text}</HISTORY_RECORDS></VM>", 0)


DEVICES = Parser(
    name="devices and NUMA nodes of a VM",
    read=_placed,
    bytes_=VM_BYTES,
    words=(
        *("<PCI><VENDOR>10de</VENDOR></PCI>", "<PCI><SHORT_ADDRESS>{n}</SHORT_ADDRESS></PCI>"),
        *("<PCI><CLASS>0302</CLASS><DEVICE>{n}</DEVICE></PCI>", "<PCI/>", "<A>1</A>", "1"),
        "<NUMA_NODE><TOTAL_CPUS>1</TOTAL_CPUS><MEMORY>1024</MEMORY></NUMA_NODE>",
        "<NUMA_NODE><TOTAL_CPUS>0</TOTAL_CPUS><MEMORY>0</MEMORY></NUMA_NODE>",
        "<NUMA_NODE><TOTAL_CPUS>{n}</TOTAL_CPUS><MEMORY>{n}</MEMORY></NUMA_NODE>",
    ),
    frames=((_VM, _REST), (_PINNED, _REST)),
    refuses=_REFUSES,
    known=(
        (_VM, "<PCI><VENDOR>10de</VENDOR></PCI>", _REST),
        (_VM, "<PCI><VENDOR>10DE</VENDOR><PROFILE>{n}</PROFILE></PCI>", _REST),
        (f"{_VM}<PCI><VENDOR>", "f", f"</VENDOR></PCI>{_REST}"),
        (_VM, f"<PCI><VENDOR>{'0' * 900}10de</VENDOR></PCI>", _REST),
        (
            _PINNED,
            "<NUMA_NODE><TOTAL_CPUS>1</TOTAL_CPUS><MEMORY>1024</MEMORY></NUMA_NODE>",
            _REST,
        ),
        (
            _PINNED,
            "<NUMA_NODE><TOTAL_CPUS>0</TOTAL_CPUS><MEMORY>0</MEMORY></NUMA_NODE>",
            _REST,
        ),
        (
            _PINNED.replace("THREAD", "SHARED"),
            "<NUMA_NODE><TOTAL_CPUS>-9</TOTAL_CPUS><MEMORY>-9</MEMORY></NUMA_NODE>",
            _REST,
        ),
        (
            f"{_PINNED}<NUMA_NODE><TOTAL_CPUS>",
            "9",
            f"</TOTAL_CPUS><MEMORY>1</MEMORY></NUMA_NODE>{_REST}",
        ),
    ),
)
SCHEDULED = Parser(
    name="scheduled actions",
    read=_due,
    bytes_=VM_BYTES,
    words=(
        *("<SCHED_ACTION>", "</SCHED_ACTION>", "<ACTION>stop</ACTION>", "<TIME>1</TIME>"),
        *("<TIME>+1</TIME>", "<REPEAT>3</REPEAT>", "<DAYS>1</DAYS>", "<DAYS>0,1,2</DAYS>"),
        *("<END_TYPE>1</END_TYPE>", "<END_VALUE>9999999999</END_VALUE>", "<ARGS>1,2</ARGS>"),
        "<SCHED_ACTION><ACTION>backup</ACTION><TIME>{n}</TIME><ARGS>1</ARGS></SCHED_ACTION>",
    ),
    refuses=_REFUSES,
    frames=(
        (_VM, _REST),
        (f"{_VM}<SCHED_ACTION><ACTION>stop</ACTION><TIME>1</TIME>", f"</SCHED_ACTION>{_REST}"),
    ),
    known=(
        (_VM, "<SCHED_ACTION><ACTION>stop</ACTION><TIME>1</TIME></SCHED_ACTION>", _REST),
        (
            f"{_VM}<SCHED_ACTION><ACTION>stop</ACTION><TIME>1</TIME><REPEAT>3</REPEAT><DAYS>",
            "1,",
            f"1</DAYS></SCHED_ACTION>{_REST}",
        ),
        (
            f"{_VM}<SCHED_ACTION><ACTION>stop</ACTION><TIME>-",
            "9",
            f"</TIME><REPEAT>3</REPEAT><DAYS>1</DAYS></SCHED_ACTION>{_REST}",
        ),
        (
            f"{_VM}<SCHED_ACTION><ACTION>snapshot-create</ACTION><TIME>1</TIME><ARGS>",
            ",",
            f"</ARGS></SCHED_ACTION>{_REST}",
        ),
        (
            f"{_VM}<SCHED_ACTION><TIME>1</TIME><ACTION>",
            "&#x202e;",
            f"</ACTION></SCHED_ACTION>{_REST}",
        ),
        (
            f"{_VM}<SCHED_ACTION><ACTION>stop</ACTION><TIME>1</TIME>",
            "<A{n}>&lt;</A{n}>",
            f"</SCHED_ACTION>{_REST}",
        ),
    ),
)
HOST = Parser(
    name="host with devices and NUMA nodes",
    read=_host,
    bytes_=HOST_BYTES,
    words=(
        *("<PCI><VENDOR>1</VENDOR><PROFILES>1,2</PROFILES></PCI>", "<A>1</A>", "<A{n}>1</A{n}>"),
        *("<NODE>", "</NODE>", "<CORE><CPUS>0:-1,1:-1</CPUS></CORE>", "0:-1,", "<CPUS>", "</CPUS>"),
    ),
    refuses=_REFUSES,
    frames=(
        (f"{_HOST}<PCI_DEVICES>", "</PCI_DEVICES></HOST_SHARE></HOST>"),
        (f"{_HOST}<NUMA_NODES><NODE>", "</NODE></NUMA_NODES></HOST_SHARE></HOST>"),
        (f"{_HOST}</HOST_SHARE><TEMPLATE>", "</TEMPLATE></HOST>"),
    ),
    known=(
        (
            f"{_HOST}<PCI_DEVICES>",
            "<PCI><VENDOR>{n}</VENDOR></PCI>",
            "</PCI_DEVICES></HOST_SHARE></HOST>",
        ),
        (
            f"{_HOST}<PCI_DEVICES><PCI><PROFILES>",
            ",",
            "</PROFILES></PCI></PCI_DEVICES></HOST_SHARE></HOST>",
        ),
        (
            f"{_HOST}<NUMA_NODES><NODE>",
            "<CORE><CPUS>0:-1</CPUS></CORE>",
            "</NODE></NUMA_NODES></HOST_SHARE></HOST>",
        ),
        (
            f"{_HOST}<NUMA_NODES><NODE><CORE><CPUS>",
            "{n}:1,",
            "</CPUS></CORE></NODE></NUMA_NODES></HOST_SHARE></HOST>",
        ),
        (f"{_HOST}</HOST_SHARE><TEMPLATE>", "<A>1</A>", "</TEMPLATE></HOST>"),
    ),
)
_RECORD = "<HISTORY><OID>1</OID><SEQ>{n}</SEQ><RSTIME>1</RSTIME><RETIME>2</RETIME></HISTORY>"
HISTORY = Parser(
    name="history records of a VM",
    read=_history,
    bytes_=VM_BYTES,
    words=(
        *(_RECORD, "<HISTORY>", "</HISTORY>", "<SEQ>{n}</SEQ>", "<SEQ>9</SEQ>", "<VM>", "</VM>"),
        *("<OID>1</OID>", "<RSTIME>1</RSTIME>", "<A{n}/>", "9"),
    ),
    frames=(("", ""), ("<HISTORY><OID>1</OID><SEQ>", "</SEQ></HISTORY>")),
    known=(
        ("", _RECORD, ""),
        ("", "<HISTORY/>", ""),
        ("<HISTORY><OID>1</OID>", "<SEQ>{n}</SEQ>", "</HISTORY>"),
        ("<HISTORY><OID>1</OID>", "<VM><HISTORY_RECORDS/></VM>", "</HISTORY>"),
        ("<HISTORY><OID>1</OID><SEQ>", "9", "</SEQ></HISTORY>"),
        ("", "<HISTORY>", ""),
    ),
)
OF_POOLS = (DEVICES, SCHEDULED, HOST, HISTORY)
