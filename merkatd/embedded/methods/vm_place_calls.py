"""The calls that deploy and migrate VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.machines.operations import choose
from merkatd.embedded.methods.call import MethodCall, mark, method
from merkatd.embedded.model.access import (
    ObjectType,
    Right,
    datastore_target,
    host_target,
    network_target,
)
from merkatd.embedded.model.errors import ACTION, INTERNAL, OneRefusal
from merkatd.embedded.model.pci_devices import has_devices_for
from merkatd.embedded.model.records import Datastore, HistoryRecord, Host, Vm
from merkatd.embedded.model.template_text import Template, number
from merkatd.embedded.model.vm_resources import _nics, _place
from merkatd.embedded.model.vm_states import Lcm, OneHostState, OneVmState, VmAction, state_name

if TYPE_CHECKING:
    from merkatd.embedded.model.records import Network


def connect(call: MethodCall, vm: Vm, extra: Template) -> None:
    """Connect the VM's automatic NICs to the networks that a scheduler chose, with leases."""
    attributes = list(vm.template.attributes)
    taken: list[Network] = []
    for wanted in _nics(extra):
        nic = int(number(wanted.get("NIC_ID", ""), int, -1))
        at = _place(attributes, nic)
        if at is None:
            raise OneRefusal(ACTION, f"NIC_ID {nic} not found")
        name, value = attributes[at]
        words = {} if isinstance(value, str) else dict(value)
        if words.get("NETWORK_MODE", "").upper() != "AUTO" or "NETWORK_ID" in words:
            raise OneRefusal(ACTION, f"NIC_ID {nic} not AUTO")
        network = _network(call, wanted, taken)
        taken.append(network)
        words |= {"NETWORK": network.name, "NETWORK_ID": str(network.id)}
        attributes[at] = name, tuple(sorted(words.items()))
    for network in taken:
        network.leases.append(vm.id)
        call.cloud.world.changed("vnet", network.id)
    vm.template = Template(tuple(attributes))


def _network(call: MethodCall, wanted: dict[str, str], taken: list[Network]) -> Network:
    oid = int(number(wanted.get("NETWORK_ID", ""), int, -1))
    network = call.find(call.cloud.world.networks, ObjectType.NET, oid)
    call.need(Right.USE, network_target(network))
    if len(network.leases) + taken.count(network) >= sum(network.sizes):
        raise OneRefusal(ACTION, f"Cannot get IP/MAC lease from virtual network {oid}.")
    return network


_CLOSING = {
    "migrate-live": VmAction.LIVE_MIGRATE,
    "migrate-poweroff": VmAction.POFF_MIGRATE,
}


@method("one.vm.deploy", "ii?bis")
def deploy(
    call: MethodCall,
    vm_id: int,
    host_id: int,
    enforce: bool = False,
    datastore_id: int = -1,
    extra: str = "",
) -> int:
    """Deploy a VM without a host on a host."""
    chosen = call.parse(extra) if extra else Template()
    host = _target_host(call, host_id)
    vm = call.find(call.cloud.world.vms, ObjectType.VM, vm_id)
    resumed = vm.history[-1].action if vm.history else VmAction.NONE
    if datastore_id < 0 and resumed in _RESUMED:
        datastore_id = vm.history[-1].datastore
    store = _datastore(call, datastore_id, host)
    vm = call.vm(vm_id, Right.ADMIN)
    _authorize(call, host, store)
    if choose("deploy", vm.state, vm.lcm) is None:
        raise OneRefusal(
            ACTION, f"Deploy action is not available for state {state_name(vm.state, vm.lcm)}"
        )
    if enforce or vm.pinned:
        _check_fits(vm, host)
    if resumed not in _RESUMED:
        connect(call, vm, chosen)
    _add_history(call, vm, host, store)
    if not vm.deploy_id:
        vm.deploy_id = f"{host.name}:{vm.name}:{host.vm_mad}"
    vm.template = vm.template.plus([("TM_MAD_SYSTEM", "dummy")])
    call.cloud.lifecycle.move(vm, OneVmState.ACTIVE, Lcm.LCM_INIT)
    call.cloud.lifecycle.begin(vm, _RESUMED.get(resumed, "deploy"))
    return vm_id


_RESUMED = {
    VmAction.STOP: "deploy-stopped",
    VmAction.UNDEPLOY: "deploy-undeployed",
    VmAction.UNDEPLOY_HARD: "deploy-undeployed",
}


@method("one.vm.migrate", "iib?bii")
def migrate(
    call: MethodCall,
    vm_id: int,
    host_id: int,
    live: bool,
    enforce: bool = False,
    datastore_id: int = -1,
    kind: int = 0,
) -> int:
    """Migrate a VM to another host: running, saved, suspended or off."""
    host = _target_host(call, host_id)
    store = _datastore(call, datastore_id, host) if datastore_id >= 0 else None
    vm = call.vm(vm_id, Right.ADMIN)
    _authorize(call, host, store)
    operation = None if vm.run is not None else choose("migrate", vm.state, vm.lcm)
    if operation is None:
        raise OneRefusal(
            ACTION, f"Migrate action is not available for state {state_name(vm.state, vm.lcm)}"
        )
    if live and vm.pinned:
        raise OneRefusal(ACTION, "VM with a pinned NUMA topology cannot be live-migrated")
    last = vm.history[-1]
    if last.host == host_id and (store is None or store.id == last.datastore):
        raise OneRefusal(ACTION, f"VM is already running on host [{host_id}]")
    if last.host != host_id and enforce:
        _check_fits(vm, host)
    store = store or _datastore(call, last.datastore, host)
    operation = _migration(operation, vm, kind, live=live)
    last.action = _CLOSING.get(operation, VmAction.MIGRATE)
    if kind == 2 and operation == "migrate-poweroff":
        last.action = VmAction.POFF_HARD_MIGRATE
    mark(call, last)
    _add_history(call, vm, host, store)
    call.cloud.lifecycle.begin(vm, operation)
    return vm_id


def _migration(operation: str, vm: Vm, kind: int, *, live: bool) -> str:
    if operation != "migrate-save":
        return operation
    if live and vm.lcm is Lcm.RUNNING:
        return "migrate-live"
    return "migrate-save" if kind == 0 else "migrate-poweroff"


def _target_host(call: MethodCall, host_id: int) -> Host:
    host = call.host(host_id)
    if host.state is OneHostState.OFFLINE:
        raise OneRefusal(ACTION, "Host is offline, cannot use it to deploy VM")
    return host


def _datastore(call: MethodCall, oid: int, host: Host) -> Datastore:
    if oid < 0:
        return _default_datastore(call, host)
    store = call.find(call.cloud.world.datastores, ObjectType.DATASTORE, oid)
    if store.type != 1:
        raise OneRefusal(
            INTERNAL,
            f"Trying to use datastore [{oid}] to deploy the VM, but it is not of type system "
            "datastore.",
        )
    if host.cluster not in store.clusters:
        raise OneRefusal(
            ACTION,
            f"datastore [{oid}] and host [{host.id}] are not in the same cluster [{host.cluster}].",
        )
    return store


def _default_datastore(call: MethodCall, host: Host) -> Datastore:
    cluster = call.find(call.cloud.world.clusters, ObjectType.CLUSTER, host.cluster)
    for oid in cluster.datastores:
        store = call.cloud.world.datastores.get(oid)
        if store is not None and store.type == 1:
            return store
    raise OneRefusal(
        ACTION, f"cluster [{cluster.id}] does not have any datastore of type SYSTEM_DS."
    )


def _authorize(call: MethodCall, host: Host, store: Datastore | None) -> None:
    call.need(Right.MANAGE, host_target(host))
    if store is not None:
        call.need(Right.USE, datastore_target(store))


def _check_fits(vm: Vm, host: Host) -> None:
    free_cpu = host.max_cpu - host.used_cpu
    free_memory_kib = host.max_memory_kib - host.used_memory_kib
    where = f"virtual machine [{vm.id}] does not fit in host [{host.id}]."
    if vm.cpu > free_cpu:
        raise OneRefusal(ACTION, f"{where} Not enough CPU: {vm.cpu}/{free_cpu}")
    if vm.memory_mib * 1024 > free_memory_kib:
        raise OneRefusal(
            ACTION, f"{where} Not enough memory: {vm.memory_mib * 1024}/{free_memory_kib}"
        )
    if not has_devices_for(host, vm):
        raise OneRefusal(ACTION, f"{where} Unavailable PCI device.")


def _add_history(call: MethodCall, vm: Vm, host: Host, store: Datastore) -> None:
    seq = vm.history[-1].seq + 1 if vm.history else 0
    now = call.cloud.world.stamp()
    vm.history.append(HistoryRecord(seq, host.id, host.name, host.cluster, store.id, now))
