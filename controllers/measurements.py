"""The names of the measurements that monitors send and controllers read."""

from typing import Final

ABSENT: Final = "absent/"
"""Prefix of a VM's id: the seconds for which the VM has run without an answer."""

MADE: Final = "made/"
"""Prefix of a VM's id: the iterations in the VM's log."""
ENDED: Final = "ended/"
"""Prefix of a VM's id: present, with exit code 0, if the VM's program ended successfully."""

LATEST: Final = 5
"""The number of latest iterations whose median is an iteration's time. The median ignores an
iteration during which the VM was suspended."""

JOBS: Final = "jobs/"
"""Prefix of a VM's id: the number of jobs that run on the worker."""
CLOSED: Final = "closed/"
"""Prefix of a VM's id: present if the worker takes no more jobs."""
