"""KVM, LXC and Xen hosts through libvirt: one connection per host, called on threads."""

from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtMissingError
from merkatd.hypervisor.libvirt.host.settings import Addresses, HostAddress, LibvirtSettings
from merkatd.hypervisor.libvirt.libvirt_adapter import LibvirtHypervisors

__all__ = [
    "Addresses",
    "HostAddress",
    "LibvirtHypervisors",
    "LibvirtMissingError",
    "LibvirtSettings",
]
