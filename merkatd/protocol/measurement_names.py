"""The names of the measurements that the daemon itself reads.

A monitor reports them among its others. The daemon keeps the newest of each, and strategies get
them with the tables of applications.
"""

from typing import Final

DONE: Final = "done"
"""The finished iterations of the slowest VM."""
MADE: Final = "made/"
"""Prefix of a VM's id: the iterations in the VM's log."""
ARRIVALS: Final = "arrivals_per_s"
"""The requests that arrive in a second."""
THROUGHPUT: Final = "throughput_per_s"
"""The requests that are answered in a second, with any status."""
RESPONSE: Final = "response_s"
"""The mean time from a request to its answer. Failed requests do not count."""
WORK_PER_REQUEST: Final = "work_per_request"
"""The core-seconds that a request takes."""

KEPT: Final = frozenset({DONE, ARRIVALS, THROUGHPUT, RESPONSE, WORK_PER_REQUEST})
"""The names of measurements of a whole cluster. Those of its VMs begin with `MADE`."""
MOST: Final = 1e15
"""The largest value that counts; guests may report any numbers."""
