"""The names of the measurements that monitors send and controllers read.

Those that the daemon reads as well are in `merkatd/protocol/measurement_names.py`.
"""

from collections.abc import Mapping
from typing import Final

ABSENT: Final = "absent/"
"""Prefix of a VM's id: the seconds for which the VM has run without an answer."""

ENDED: Final = "ended/"
"""Prefix of a VM's id: present, with exit code 0, if the VM's program ended successfully."""

LATEST: Final = 5
"""The number of latest iterations whose median is an iteration's time. The median ignores an
iteration during which the VM was suspended."""

JOBS: Final = "jobs/"
"""Prefix of a VM's id: the number of jobs that run on the worker."""
CLOSED: Final = "closed/"
"""Prefix of a VM's id: present if the worker takes no more jobs."""

ANSWERING: Final = "answering"
"""The number of VMs that answered."""
FAILURES: Final = "failures_per_s"
"""Requests per second that the proxies answered with a status of 500 or more."""
UNREAD: Final = "unread_per_s"
"""Lines per second of access logs that are not in the documented format."""
PERCENTILES: Final[Mapping[str, float]] = {
    "response_p50_s": 0.5,
    "response_p95_s": 0.95,
    "response_p99_s": 0.99,
}
"""The percentiles of the response time, each with its part of all requests. Failed requests do not
count."""
