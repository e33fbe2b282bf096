"""The data model of the system: resources, hosts, VMs and bids; snapshots and plans.

All other packages use these values. They have no behaviour beyond their own consistency, and import
nothing else of Merkat.
"""

from merkatd.cluster.columns import Bools, Floats, Ints
from merkatd.cluster.hosts import Hosts, HostState, Markets, Requirements
from merkatd.cluster.plan import (
    Balloon,
    Create,
    Decision,
    Deploy,
    Limit,
    Migrate,
    OnHost,
    Pin,
    Plan,
    Resume,
    Step,
    Stop,
    Suspend,
    Terminate,
    Throttle,
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
    "Floats",
    "HostState",
    "Hosts",
    "Ints",
    "Limit",
    "Markets",
    "Migrate",
    "OnHost",
    "Orders",
    "Pin",
    "Plan",
    "Requirements",
    "Resume",
    "RolePolicy",
    "Roles",
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
    "urgent_vms",
]
