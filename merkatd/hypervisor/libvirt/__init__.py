"""KVM, LXC and Xen hosts through libvirt: one connection each, called on threads."""

from merkatd.hypervisor.libvirt.adapter import LibvirtHypervisors
from merkatd.hypervisor.libvirt.binding import MissingError
from merkatd.hypervisor.libvirt.places import Addresses, Place
from merkatd.hypervisor.libvirt.settings import LibvirtSettings

__all__ = ["Addresses", "LibvirtHypervisors", "LibvirtSettings", "MissingError", "Place"]
