"""The XML of hosts, users, groups, clusters, datastores, images, networks and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from merkatd.embedded.model.access import describe
from merkatd.embedded.model.pci_devices import devices_xml
from merkatd.embedded.model.template_text import cdata
from merkatd.embedded.model.vm_resources import READY, USED, USED_PERSISTENT, ranges_xml, users_of
from merkatd.embedded.render.render_vm import owner_xml, permissions_xml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from merkatd.embedded.machines.usage_samples import HostSample
    from merkatd.embedded.model.records import (
        AclRule,
        Cluster,
        Datastore,
        Host,
        Image,
        LoginToken,
        Network,
        User,
        UserGroup,
        VmGroup,
        VmTemplate,
    )
    from merkatd.embedded.model.world import World


def host_xml(world: World, host: Host, sample: str) -> str:
    """Return a host's XML with a monitoring sample; in pools the sample is empty."""
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
    total_cpu = 0 if host.unknown_capacity else host.total_cpu
    total_memory_kib = 0 if host.unknown_capacity else host.total_memory_kib
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
    """Return the MONITORING element of a host."""
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
        "</MEMORY><NODE_ID><![CDATA[0]]></NODE_ID></NUMA_NODE>"
        f"<MERKAT_ENERGY_WH>{cdata(f'{sample.energy_wh:.3f}')}</MERKAT_ENERGY_WH></MONITORING>"
    )


QUOTAS = (
    "<DATASTORE_QUOTA></DATASTORE_QUOTA><NETWORK_QUOTA></NETWORK_QUOTA>"
    "<VM_QUOTA></VM_QUOTA><IMAGE_QUOTA></IMAGE_QUOTA>"
)


def ids(root: str, values: Iterable[int]) -> str:
    """Return an element that lists ids."""
    return f"<{root}>{''.join(f'<ID>{value}</ID>' for value in sorted(values))}</{root}>"


def user_xml(world: World, user: User, *, quotas: bool) -> str:
    """Return a user's XML; `user.info` has the quotas inside, the pool next to it."""
    return (
        f"<USER><ID>{user.id}</ID><GID>{user.gid}</GID>{ids('GROUPS', user.groups)}"
        f"<GNAME>{escape(world.group_name(user.gid))}</GNAME><NAME>{escape(user.name)}</NAME>"
        f"<PASSWORD>{cdata(user.password)}</PASSWORD>"
        f"<AUTH_DRIVER>{cdata(user.driver)}</AUTH_DRIVER><ENABLED>{int(user.enabled)}</ENABLED>"
        f"{''.join(map(_token, user.tokens))}"
        f"{user.template.xml('TEMPLATE')}{QUOTAS if quotas else ''}</USER>"
    )


def _token(token: LoginToken) -> str:
    return (
        f"<LOGIN_TOKEN><TOKEN>{escape(token.text)}</TOKEN>"
        f"<EXPIRATION_TIME>{token.until_s}</EXPIRATION_TIME><EGID>{token.group}</EGID></LOGIN_TOKEN>"
    )


def group_xml(world: World, group: UserGroup, *, quotas: bool) -> str:
    """Return a group's XML with its members."""
    members = (user.id for user in world.users if group.id in user.groups)
    return (
        f"<GROUP><ID>{group.id}</ID><NAME>{escape(group.name)}</NAME>"
        f"{group.template.xml('TEMPLATE')}{ids('USERS', members)}{ids('ADMINS', group.admins)}"
        f"{QUOTAS if quotas else ''}</GROUP>"
    )


def quotas_xml(oid: int) -> str:
    """Return the quotas element that follows each user and group in pools."""
    return f"<QUOTAS><ID>{oid}</ID>{QUOTAS}</QUOTAS>"


def cluster_xml(cluster: Cluster) -> str:
    """Return a cluster's XML with the ids of its members."""
    return (
        f"<CLUSTER><ID>{cluster.id}</ID><NAME>{escape(cluster.name)}</NAME>"
        f"{ids('HOSTS', cluster.hosts)}{ids('DATASTORES', cluster.datastores)}"
        f"{ids('VNETS', cluster.networks)}{cluster.template.xml('TEMPLATE')}</CLUSTER>"
    )


def datastore_xml(world: World, store: Datastore) -> str:
    """Return a datastore's XML."""
    images = [image.id for image in world.images if image.datastore == store.id]
    return (
        f"<DATASTORE>{owner_xml(world, store.id, store.uid, store.gid, store.name)}"
        f"{permissions_xml(store.permissions)}"
        f"<DS_MAD>{cdata(store.template.get('DS_MAD', '-'))}</DS_MAD>"
        f"<TM_MAD>{cdata(store.template.get('TM_MAD', 'dummy'))}</TM_MAD>"
        f"<BASE_PATH>{cdata(f'/var/lib/one/datastores/{store.id}')}</BASE_PATH>"
        f"<TYPE>{store.type}</TYPE><DISK_TYPE>0</DISK_TYPE><STATE>0</STATE>"
        f"{ids('CLUSTERS', store.clusters)}<TOTAL_MB>{store.total_mib}</TOTAL_MB>"
        f"<FREE_MB>{store.free_mib}</FREE_MB><USED_MB>{store.used_mib}</USED_MB>"
        f"{ids('IMAGES', images)}{store.template.xml('TEMPLATE')}</DATASTORE>"
    )


def image_xml(world: World, image: Image) -> str:
    """Return an image's XML with the VMs that use it."""
    vms = users_of(world, image.id)
    state = READY
    if vms:
        state = USED_PERSISTENT if image.persistent else USED
    store = world.datastores.rows[image.datastore]
    return (
        f"<IMAGE>{owner_xml(world, image.id, image.uid, image.gid, image.name)}"
        f"{permissions_xml(image.permissions)}<TYPE>{image.type}</TYPE><DISK_TYPE>0</DISK_TYPE>"
        f"<PERSISTENT>{int(image.persistent)}</PERSISTENT><REGTIME>{image.regtime}</REGTIME>"
        f"<MODTIME>{image.regtime}</MODTIME><SOURCE>{cdata('dummy_path')}</SOURCE>"
        f"<PATH>{cdata('')}</PATH><FORMAT>{cdata(image.format)}</FORMAT><FS>{cdata('')}</FS>"
        f"<SIZE>{image.size_mib}</SIZE><STATE>{state}</STATE><PREV_STATE>{state}</PREV_STATE>"
        f"<RUNNING_VMS>{len(vms)}</RUNNING_VMS><DATASTORE_ID>{store.id}</DATASTORE_ID>"
        f"<DATASTORE>{escape(store.name)}</DATASTORE>{ids('VMS', vms)}"
        f"{image.template.xml('TEMPLATE')}</IMAGE>"
    )


def vm_group_xml(world: World, group: VmGroup) -> str:
    """Return a VM group's XML with its roles."""
    roles = "".join(_role(number, *role) for number, role in enumerate(group.roles))
    return (
        f"<VM_GROUP>{owner_xml(world, group.id, group.uid, group.gid, group.name)}"
        f"{permissions_xml(group.permissions)}<ROLES>{roles}</ROLES>"
        f"{group.template.xml('TEMPLATE')}</VM_GROUP>"
    )


def _role(number: int, name: str, vms: list[int], attributes: dict[str, str]) -> str:
    values = {**attributes, "ID": str(number), "NAME": name}
    if vms:
        values["VMS"] = ",".join(map(str, sorted(vms)))
    inner = "".join(f"<{key}>{cdata(value)}</{key}>" for key, value in sorted(values.items()))
    return f"<ROLE>{inner}</ROLE>"


def vm_template_xml(world: World, row: VmTemplate) -> str:
    """Return a VM template's XML."""
    return (
        f"<VMTEMPLATE>{owner_xml(world, row.id, row.uid, row.gid, row.name)}"
        f"{permissions_xml(row.permissions)}<REGTIME>{row.regtime}</REGTIME>"
        f"{row.template.xml('TEMPLATE')}</VMTEMPLATE>"
    )


def network_xml(world: World, network: Network) -> str:
    """Return a virtual network's XML."""
    return (
        f"<VNET>{owner_xml(world, network.id, network.uid, network.gid, network.name)}"
        f"{permissions_xml(network.permissions)}{ids('CLUSTERS', network.clusters)}"
        f"<BRIDGE>{cdata(network.template.get('BRIDGE'))}</BRIDGE>"
        "<BRIDGE_TYPE><![CDATA[linux]]></BRIDGE_TYPE><STATE>1</STATE><PREV_STATE>1</PREV_STATE>"
        "<PARENT_NETWORK_ID/><TEMPLATE_ID/>"
        f"<VN_MAD>{cdata(network.template.get('VN_MAD', 'dummy'))}</VN_MAD>"
        "<PHYDEV/><VLAN_ID/><OUTER_VLAN_ID/><VLAN_ID_AUTOMATIC>0</VLAN_ID_AUTOMATIC>"
        "<OUTER_VLAN_ID_AUTOMATIC>0</OUTER_VLAN_ID_AUTOMATIC>"
        f"<USED_LEASES>{len(network.leases)}</USED_LEASES>"
        f"<VROUTERS></VROUTERS>{network.template.xml('TEMPLATE')}{ranges_xml(network)}"
        "</VNET>"
    )


def rule_xml(rule: AclRule) -> str:
    """Return the XML of an access control rule."""
    return (
        f"<ACL><ID>{rule.id}</ID><USER>{rule.user:x}</USER><RESOURCE>{rule.resource:x}</RESOURCE>"
        f"<RIGHTS>{rule.rights:x}</RIGHTS><ZONE>{rule.zone:x}</ZONE>"
        f"<STRING>{escape(describe(rule))}</STRING></ACL>"
    )
