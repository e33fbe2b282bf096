"""The hosts' hypervisors: the guests' use of resources and the limits on it."""

from merkatd.hypervisor.simulated_hosts import EmbeddedHypervisors
from merkatd.hypervisor.unmanaged_hosts import UntouchedHypervisors

__all__ = ["EmbeddedHypervisors", "UntouchedHypervisors"]
