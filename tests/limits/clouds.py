"""Small clouds on which limits are computed."""

import numpy as np

from merkatd.cluster import (
    Snapshot,
)
from merkatd.limits import (
    Topology,
)
from tests.clouds import cloud, hosts_table, vms_table
from tests.limits.hosts import (
    one_host,
)

FOUR_CORES = Topology(dict.fromkeys(range(4), 0))


def three_bids() -> Snapshot:
    """Return bids of 3, 3 and 2 for host0's 400 units of CPU; each VM's size is 400."""
    return one_host(
        [400.0, 8192.0],
        bid=[[3.0, 1.0], [3.0, 1.0], [2.0, 1.0]],
        cap=np.tile([400.0, 1024.0], (3, 1)),
        vcpus=[4, 4, 4],
        held=np.tile([np.nan, 1024.0], (3, 1)),
    )


def two_hosts() -> Snapshot:
    """Return a cloud of host0 and host1 with VM 0 on host0."""
    return cloud(
        hosts_table(np.tile([400.0, 8192.0], (2, 1))),
        vms_table(
            [0],
            np.ones((1, 2)),
            np.array([[200.0, 1024.0]]),
            vcpus=np.array([2]),
            held=np.array([[np.nan, 1024.0]]),
        ),
    )
