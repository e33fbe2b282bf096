"""The data model of the system: resources, hosts, VMs and bids; snapshots and plans.

All other packages use these values. They have no behaviour beyond their own consistency, and import
nothing else of Merkat.
"""

from merkatd.cluster.columns import Bools, Floats, Ints
from merkatd.cluster.hosts import FailureRates, Hosts, HostState, Markets, Requirements
from merkatd.cluster.plan import (
    Balloon,
    Create,
    Decision,
    Deploy,
    Limit,
    Migrate,
    OfHost,
    OnHost,
    Pin,
    Plan,
    Resume,
    Scale,
    Sleep,
    Step,
    Stop,
    Suspend,
    Terminate,
    Throttle,
    Wake,
)
from merkatd.cluster.snapshot import Snapshot, UsageHistory
from merkatd.cluster.urgent import urgent_vms
from merkatd.cluster.vms import (
    ACTIVE,
    BIDDING,
    ON_HOST,
    RESTING,
    Orders,
    RolePolicy,
    Roles,
    VmKind,
    Vms,
    VmState,
)

__all__ = [
    "ACTIVE",
    "BIDDING",
    "ON_HOST",
    "RESTING",
    "Balloon",
    "Bools",
    "Create",
    "Decision",
    "Deploy",
    "FailureRates",
    "Floats",
    "HostState",
    "Hosts",
    "Ints",
    "Limit",
    "Markets",
    "Migrate",
    "OfHost",
    "OnHost",
    "Orders",
    "Pin",
    "Plan",
    "Requirements",
    "Resume",
    "RolePolicy",
    "Roles",
    "Scale",
    "Sleep",
    "Snapshot",
    "Step",
    "Stop",
    "Suspend",
    "Terminate",
    "Throttle",
    "UsageHistory",
    "VmKind",
    "VmState",
    "Vms",
    "Wake",
    "urgent_vms",
]
