"""Hosts as the XML that oned sends."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from merkatd.embedded.devices import devices_xml
from merkatd.embedded.template import cdata

if TYPE_CHECKING:
    from merkatd.embedded.monitoring import HostSample
    from merkatd.embedded.records import Host
    from merkatd.embedded.world import World


def host_xml(world: World, host: Host, sample: str) -> str:
    """A host with the monitoring sample given; pools give none."""
    cluster = world.clusters.get(host.cluster)
    vms = "".join(f"<ID>{vm_id}</ID>" for vm_id in sorted(host.vms))
    return (
        f"<HOST><ID>{host.id}</ID><NAME>{escape(host.name)}</NAME><STATE>{host.state:d}</STATE>"
        f"<PREV_STATE>{host.prev_state:d}</PREV_STATE><IM_MAD>{cdata(host.im_mad)}</IM_MAD>"
        f"<VM_MAD>{cdata(host.vm_mad)}</VM_MAD><CLUSTER_ID>{host.cluster}</CLUSTER_ID>"
        f"<CLUSTER>{escape(cluster.name if cluster else '')}</CLUSTER>"
        f"{_share(world, host)}<VMS>{vms}</VMS>{host.template.xml('TEMPLATE')}"
        f"{sample or '<MONITORING/>'}</HOST>"
    )


def _share(world: World, host: Host) -> str:
    total_cpu = 0 if host.offline else host.total_cpu
    total_memory_kib = 0 if host.offline else host.total_memory_kib
    return (
        f"<HOST_SHARE><MEM_USAGE>{host.used_memory_kib}</MEM_USAGE>"
        f"<CPU_USAGE>{host.used_cpu}</CPU_USAGE><TOTAL_MEM>{total_memory_kib}</TOTAL_MEM>"
        f"<TOTAL_CPU>{total_cpu}</TOTAL_CPU><MAX_MEM>{host.max_memory_kib}</MAX_MEM>"
        f"<MAX_CPU>{host.max_cpu}</MAX_CPU><RUNNING_VMS>{len(host.vms)}</RUNNING_VMS>"
        f"<VMS_THREAD>1</VMS_THREAD>{_disk(world, host)}{devices_xml(host)}"
        f"<NUMA_NODES>{_node(host)}</NUMA_NODES></HOST_SHARE>"
    )


def _disk(world: World, host: Host) -> str:
    cluster = world.clusters.get(host.cluster)
    stores = [world.datastores.get(oid) for oid in (cluster.datastores if cluster else ())]
    system = next((store for store in stores if store is not None and store.type == 1), None)
    total, free, used = (
        (system.total_mib, system.free_mib, system.used_mib) if system else (0, 0, 0)
    )
    return (
        f"<DATASTORES><DISK_USAGE>{cdata('0')}</DISK_USAGE><FREE_DISK>{cdata(str(free))}"
        f"</FREE_DISK><MAX_DISK>{cdata(str(total))}</MAX_DISK><USED_DISK>{cdata(str(used))}"
        "</USED_DISK></DATASTORES>"
    )


def _node(host: Host) -> str:
    cores = "".join(
        f"<CORE><CPUS><![CDATA[{core}:{host.pins.get(core, -1)}]]></CPUS>"
        f"<DEDICATED><![CDATA[NO]]></DEDICATED>"
        f"<FREE><![CDATA[{int(core not in host.pins)}]]></FREE>"
        f"<ID><![CDATA[{core}]]></ID></CORE>"
        for core in range(host.total_cpu // 100)
    )
    return (
        f"<NODE>{cores}<HUGEPAGE><PAGES><![CDATA[0]]></PAGES><SIZE><![CDATA[2048]]></SIZE>"
        "<USAGE><![CDATA[0]]></USAGE></HUGEPAGE><MEMORY><DISTANCE><![CDATA[0]]></DISTANCE>"
        f"<TOTAL><![CDATA[{host.total_memory_kib}]]></TOTAL><USAGE><![CDATA[0]]></USAGE></MEMORY>"
        "<NODE_ID><![CDATA[0]]></NODE_ID></NODE>"
    )


def host_sample_xml(host: Host, sample: HostSample) -> str:
    """The MONITORING element of a host."""
    used_cpu = min(round(sample.cpu), host.total_cpu)
    used_memory = min(sample.memory_kib, host.total_memory_kib)
    free_memory = host.total_memory_kib - used_memory
    return (
        f"<MONITORING><TIMESTAMP>{sample.stamp}</TIMESTAMP><ID>{host.id}</ID>"
        f"<CAPACITY><FREE_CPU><![CDATA[{host.total_cpu - used_cpu}]]></FREE_CPU>"
        f"<FREE_MEMORY><![CDATA[{free_memory}]]></FREE_MEMORY>"
        f"<USED_CPU><![CDATA[{used_cpu}]]></USED_CPU>"
        f"<USED_MEMORY><![CDATA[{used_memory}]]></USED_MEMORY></CAPACITY>"
        "<SYSTEM><NETRX><![CDATA[0]]></NETRX><NETTX><![CDATA[0]]></NETTX></SYSTEM>"
        "<NUMA_NODE><HUGEPAGE><FREE><![CDATA[0]]></FREE><SIZE><![CDATA[2048]]></SIZE></HUGEPAGE>"
        f"<MEMORY><FREE><![CDATA[{free_memory}]]></FREE><USED><![CDATA[{used_memory}]]></USED>"
        "</MEMORY><NODE_ID><![CDATA[0]]></NODE_ID></NUMA_NODE></MONITORING>"
    )
