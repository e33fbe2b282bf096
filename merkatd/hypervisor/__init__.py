"""Hosts' hypervisors: what guests really use, and the limits that are set on them."""

from merkatd.hypervisor.embedded import EmbeddedHypervisors
from merkatd.hypervisor.untouched import UntouchedHypervisors

__all__ = ["EmbeddedHypervisors", "UntouchedHypervisors"]
