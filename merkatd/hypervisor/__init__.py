"""Hosts' hypervisors: what guests really use, and the limits that are set on them."""

from merkatd.hypervisor.simulated_hosts import EmbeddedHypervisors
from merkatd.hypervisor.unmanaged_hosts import UntouchedHypervisors

__all__ = ["EmbeddedHypervisors", "UntouchedHypervisors"]
