"""The work of services' requests, estimated from what their VMs use and how much they answer.

Each period gives a sample of a service whose monitor measures its throughput. See
Note [The work of a request] in `platforms/profiles/work_profile.py`.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from merkatd.cluster import Snapshot
from merkatd.limits.enforced_limits import CPU
from merkatd.platforms.profiles.application_use import used_by_applications
from merkatd.platforms.profiles.work_profile import WorkProfile, WorkSample


class ServiceWork:
    """Keeps a sliding window of samples for each living service."""

    def __init__(self) -> None:
        self._profiles: Mapping[int, WorkProfile] = {}
        """By the id that the service's VMs have as `application`."""

    def work_per_request(self, application: int) -> float | None:
        """Return the estimate in core-seconds; None if it is unknown.

        It takes up to a millisecond; any thread may call this.
        """
        return self._profiles.get(application, _EMPTY).estimate().work_per_request

    def note(self, snapshot: Snapshot, throughput: Mapping[int, float]) -> None:
        """Take a sample of each of these services, by application, and forget all others.

        `throughput` is in requests per second; NaN if the monitor has not measured it lately.
        """
        used = used_by_applications(snapshot, CPU)
        profiles: dict[int, WorkProfile] = {}
        for application, requests_per_s in throughput.items():
            profile = self._profiles.get(application, _EMPTY)
            sample = WorkSample(requests_per_s, used.get(application, np.nan))
            profiles[application] = profile.with_sample(sample)
        self._profiles = profiles


_EMPTY: Final = WorkProfile()
