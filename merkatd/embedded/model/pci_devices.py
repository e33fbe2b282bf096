"""The hosts' PCI devices, as oned's dummy driver reports them, and their loan to VMs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from merkatd.embedded.model.template_text import Template, cdata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from merkatd.embedded.model.records import Host, Vm
    from merkatd.embedded.model.template_text import Vector


@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A device as its host reports it; its numbers are hexadecimal."""

    vendor: str
    vendor_name: str
    device: str
    device_name: str
    kind: str
    kind_name: str
    bus: str
    slot: str
    function: str
    numa_node: str

    @property
    def address(self) -> str:
        """The device's short address."""
        return f"{self.bus}:{self.slot}.{self.function}"

    @property
    def where(self) -> dict[str, str]:
        """The attributes that give a VM the device's address."""
        return {
            "ADDRESS": f"0000:{self.bus}:{self.slot}:{self.function}",
            "BUS": self.bus,
            "DOMAIN": "0000",
            "FUNCTION": self.function,
            "NUMA_NODE": self.numa_node,
            "SHORT_ADDRESS": self.address,
            "SLOT": self.slot,
        }

    @property
    def what(self) -> dict[str, str]:
        """The attributes by which VMs request the device."""
        return {"VENDOR": self.vendor, "DEVICE": self.device, "CLASS": self.kind}


_NVIDIA = "10de", "NVIDIA Corporation"
_USB = "0c03", "USB controller"
DEVICES = (
    SimulatedDevice(
        *_NVIDIA,
        "0863",
        "C79 [GeForce 9400M]",
        "0300",
        "VGA compatible controller",
        bus="02",
        slot="00",
        function="0",
        numa_node="1",
    ),
    SimulatedDevice(
        *_NVIDIA,
        "0aa7",
        "MCP79 OHCI USB 1.1 Controller",
        *_USB,
        bus="00",
        slot="06",
        function="0",
        numa_node="1",
    ),
    SimulatedDevice(
        *_NVIDIA,
        "0aa9",
        "MCP79 EHCI USB 2.0 Controller",
        *_USB,
        bus="00",
        slot="06",
        function="1",
        numa_node="0",
    ),
)
"""The devices of every host."""


def devices_xml(host: Host) -> str:
    """Return a host's devices as XML, with the VMs that use them."""
    return f"<PCI_DEVICES>{''.join(_xml(host, device) for device in DEVICES)}</PCI_DEVICES>"


def _xml(host: Host, device: SimulatedDevice) -> str:
    says = {
        **device.where,
        **device.what,
        "CLASS_NAME": device.kind_name,
        "DEVICE_NAME": device.device_name,
        "TYPE": f"{device.vendor}:{device.device}:{device.kind}",
        "VENDOR_NAME": device.vendor_name,
        "VMID": str(host.lent.get(device.address, -1)),
    }
    return f"<PCI>{''.join(f'<{key}>{cdata(says[key])}</{key}>' for key in sorted(says))}</PCI>"


def has_devices_for(host: Host, vm: Vm) -> bool:
    """Return whether the host has all devices free that the VM requests."""
    return all(device is not None for device in _chosen(host, vm))


def lend(host: Host, vm: Vm) -> None:
    """Lend the VM the free devices that it requests; write their addresses to its template."""
    chosen = _chosen(host, vm)
    host.lent |= {device.address: vm.id for device in chosen if device is not None}
    if chosen:
        vm.template = _told(vm.template, chosen)


def take_back(host: Host, vm: Vm) -> None:
    """Free the VM's devices on the host."""
    host.lent = {address: owner for address, owner in host.lent.items() if owner != vm.id}


def _wants(vm: Vm) -> Iterator[Vector]:
    for name, value in vm.template.attributes:
        if name == "PCI" and not isinstance(value, str):
            yield value


def _chosen(host: Host, vm: Vm) -> list[SimulatedDevice | None]:
    """Return a free device for each request in order; None if no device fits."""
    free = [device for device in DEVICES if device.address not in host.lent]
    chosen: list[SimulatedDevice | None] = []
    for want in _wants(vm):
        device = next((candidate for candidate in free if _fits(dict(want), candidate)), None)
        if device is not None:
            free.remove(device)
        chosen.append(device)
    return chosen


def _fits(want: dict[str, str], device: SimulatedDevice) -> bool:
    named = {key: want[key] for key in device.what if want.get(key)}
    if not named:
        return want.get("SHORT_ADDRESS") == device.address
    return all(int(text, 16) == int(device.what[key], 16) for key, text in named.items())


def _told(template: Template, chosen: list[SimulatedDevice | None]) -> Template:
    left = iter(chosen)
    attributes = []
    for name, value in template.attributes:
        device = next(left) if name == "PCI" and not isinstance(value, str) else None
        if device is None or isinstance(value, str):
            attributes.append((name, value))
        else:
            attributes.append((name, tuple(sorted({**dict(value), **device.where}.items()))))
    return Template(tuple(attributes))
