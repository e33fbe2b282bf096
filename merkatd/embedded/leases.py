"""Leases of virtual networks: one for each NIC that has one, given back when its VM is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.access import Kind, Right
from merkatd.embedded.call import ACTION, Call, Refusal, network_target
from merkatd.embedded.template import Template, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from merkatd.embedded.records import Network, Vm
    from merkatd.embedded.template import Vector
    from merkatd.embedded.world import World


def sizes(template: Template) -> list[int]:
    """Of a new network's ranges of addresses."""
    return [
        int(number(dict(value).get("SIZE", ""), int, 0))
        for name, value in template.attributes
        if name == "AR" and not isinstance(value, str)
    ]


def ranges_xml(network: Network) -> str:
    """The ranges of a network, and how many addresses of each are used."""
    used = len(network.leases)
    rows = []
    for place, size in enumerate(network.sizes):
        here = min(used, size)
        used -= here
        rows.append(
            f"<AR><AR_ID>{place}</AR_ID><SIZE>{size}</SIZE><TYPE>IP4</TYPE>"
            f"<USED_LEASES>{here}</USED_LEASES><LEASES></LEASES></AR>"
        )
    return f"<AR_POOL>{''.join(rows)}</AR_POOL>"


def connect(call: Call, vm: Vm, extra: Template) -> None:
    """Give the VM's automatic NICs the networks that a scheduler chose, with a lease of each."""
    attributes = list(vm.template.attributes)
    taken: list[Network] = []
    for wanted in _nics(extra):
        nic = int(number(wanted.get("NIC_ID", ""), int, -1))
        at = _place(attributes, nic)
        if at is None:
            raise Refusal(ACTION, f"NIC_ID {nic} not found")
        name, found = attributes[at]
        words = {} if isinstance(found, str) else dict(found)
        if words.get("NETWORK_MODE", "").upper() != "AUTO" or "NETWORK_ID" in words:
            raise Refusal(ACTION, f"NIC_ID {nic} not AUTO")
        network = _network(call, wanted, taken)
        taken.append(network)
        words |= {"NETWORK": network.name, "NETWORK_ID": str(network.id)}
        attributes[at] = name, tuple(sorted(words.items()))
    for network in taken:
        network.leases.append(vm.id)
        call.cloud.world.changed("vnet", network.id)
    vm.template = Template(tuple(attributes))


def give_back(world: World, vm: Vm) -> None:
    """The VM is done: its leases are free."""
    for words in _nics(vm.template):
        network = world.networks.get(int(number(words.get("NETWORK_ID", ""), int, -1)))
        if network is not None and vm.id in network.leases:
            network.leases.remove(vm.id)
            world.changed("vnet", network.id)


def _network(call: Call, wanted: dict[str, str], taken: list[Network]) -> Network:
    oid = int(number(wanted.get("NETWORK_ID", ""), int, -1))
    network = call.find(call.cloud.world.networks, Kind.NET, oid)
    call.need(Right.USE, network_target(network))
    if len(network.leases) + taken.count(network) >= sum(network.sizes):
        raise Refusal(ACTION, f"Cannot get IP/MAC lease from virtual network {oid}.")
    return network


def _nics(template: Template) -> Iterator[dict[str, str]]:
    for name, value in template.attributes:
        if name == "NIC" and not isinstance(value, str):
            yield dict(value)


def _place(attributes: list[tuple[str, str | Vector]], nic: int) -> int | None:
    """Where the NIC of this id stands."""
    for at, (name, value) in enumerate(attributes):
        if name == "NIC" and not isinstance(value, str) and dict(value).get("NIC_ID") == str(nic):
            return at
    return None
