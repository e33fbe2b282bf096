"""KVM, LXC and Xen hosts through libvirt: one connection each, called on threads."""

from merkatd.hypervisor.libvirt.host.libvirt_module import MissingError
from merkatd.hypervisor.libvirt.host.settings import Addresses, LibvirtSettings, Place
from merkatd.hypervisor.libvirt.libvirt_adapter import LibvirtHypervisors

__all__ = ["Addresses", "LibvirtHypervisors", "LibvirtSettings", "MissingError", "Place"]
