"""The words of the system: resources, hosts, VMs, bids; Snapshot and Plan.

Everything else speaks in these values. They hold no behaviour beyond their own
consistency and import nothing of ours.
"""

from merkatd.cluster.arrays import Bools, Floats, Ints
from merkatd.cluster.decision import Decision
from merkatd.cluster.plan import Plan
from merkatd.cluster.snapshot import History, Snapshot
from merkatd.cluster.states import RESTING, HostState, RolePolicy, VmKind, VmState
from merkatd.cluster.steps import (
    Balloon,
    Create,
    Deploy,
    Limit,
    Migrate,
    OnHost,
    Pin,
    Resume,
    Step,
    Stop,
    Suspend,
    Terminate,
    Throttle,
)
from merkatd.cluster.tables import Hosts, Markets, Requirements, Roles, Vms
from merkatd.cluster.urgent import urgent_vms

__all__ = [
    "RESTING",
    "Balloon",
    "Bools",
    "Create",
    "Decision",
    "Deploy",
    "Floats",
    "History",
    "HostState",
    "Hosts",
    "Ints",
    "Limit",
    "Markets",
    "Migrate",
    "OnHost",
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
    "VmKind",
    "VmState",
    "Vms",
    "urgent_vms",
]
