"""Foreign placements: deployments and migrations of VMs by other software or people.

# Note [Whose placement it was]

A VM whose host differs from the previous observation was placed since then. The placement is this
daemon's if a step in the journal sends the VM to that host. Expired steps count for an hour too,
since OpenNebula may carry out a request late. Every other placement is foreign. Example: VM 7
waits, and a minute later it is on host 3 without a step of this daemon. So an
`opennebula-scheduler` probably runs beside the daemon, and the two undo each other's work.

Only consecutive observations are compared. After a start, a pause, or while another daemon acts,
the first observation is only the basis for the next one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twisted.logger import Logger

from merkatd.cluster import Deploy, Migrate, Step
from merkatd.cluster.columns import NO_HOST, NO_MARKET
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.observation.observed import Observed

OURS_S = 3600.0
"""The time for which a step in the journal explains a placement."""
QUIET_S = 600.0
"""The time without a foreign placement after which the warning ends."""

SCHEDULER = (
    "probably an opennebula-scheduler that runs beside this daemon:"
    " `systemctl mask --now opennebula-scheduler` ends it"
)
DRS = (
    "probably OneDRS, as the cluster has ONE_DRS automation:"
    ' AUTOMATION = "manual" in the cluster\'s template ends it'
)
ADMINISTRATOR = "probably an administrator's own call (`onevm migrate`)"

_log = Logger()


@dataclass(frozen=True, slots=True)
class Placement:
    """A VM's arrival on a host."""

    vm: int
    source: int
    """The previous host, -1 if the VM waited."""
    host: int

    @property
    def deployed(self) -> bool:
        """Whether the VM waited before."""
        return self.source == NO_HOST


class ForeignPlacements:
    """Compares each observation with the previous one."""

    def __init__(self) -> None:
        self.why: str | None = None
        """The latest foreign placement with its likely cause; None if there was none for some
        time."""
        self.deployments = 0
        """The number of foreign deployments since the daemon started."""
        self.migrations = 0
        """The number of foreign migrations since the daemon started."""
        self._places: Mapping[int, int] | None = None
        self._ours: dict[tuple[int, int], float] = {}
        self._cause: str | None = None
        self._newest_s = 0.0
        """The time of the latest foreign placement."""

    def interrupt(self) -> None:
        """Compare the next observation with nothing, because this daemon did not act."""
        self._places = None

    def compare(self, observed: Observed, *, acts: bool) -> None:
        """Detect placements by other software; beside another scheduler they are expected.

        `acts`: whether this daemon acts, so that no other scheduler should.
        """
        if not acts:
            self.interrupt()
            return
        vms = observed.snapshot.vms
        managed = frozenset(vms.id[vms.market != NO_MARKET].tolist())
        self.look(observed.observation, observed.under_way, managed)

    def look(self, seen: Observation, steps: Iterable[Step], managed: frozenset[int]) -> None:
        """Compare an observation with the previous one.

        `steps` are all that were under way before it. Only VMs `managed` by a market are checked.
        """
        for step in steps:
            if isinstance(step, Deploy | Migrate):
                self._ours[step.vm, step.host] = seen.at_s
            if isinstance(step, Migrate):  # it may fail, and the VM may return
                self._ours[step.vm, step.source] = seen.at_s
        oldest_s = seen.at_s - OURS_S
        self._ours = {place: at_s for place, at_s in self._ours.items() if at_s >= oldest_s}
        places = dict(zip(seen.vm_id.tolist(), seen.vm_host.tolist(), strict=True))
        before, self._places = self._places, places
        if before is None:
            return
        placements = [
            Placement(vm, before.get(vm, NO_HOST), host)
            for vm, host in places.items()
            if host not in (NO_HOST, before.get(vm, NO_HOST))
            and (vm, host) not in self._ours
            and vm in managed
        ]
        self._note(seen, placements)

    def _note(self, seen: Observation, placements: list[Placement]) -> None:
        deployed = sum(placement.deployed for placement in placements)
        self.deployments += deployed
        self.migrations += len(placements) - deployed
        if not placements:
            if self.why is not None and abs(seen.at_s - self._newest_s) >= QUIET_S:
                _log.info("No foreign placement of a VM for {quiet:.0f} s", quiet=QUIET_S)
                self.why = self._cause = None
            return
        self._newest_s = seen.at_s
        cause = _likely(seen, placements)
        placement = placements[0]
        did = "was deployed on" if placement.deployed else "was migrated to"
        more = f" and {len(placements) - 1} more" if len(placements) > 1 else ""
        self.why = (
            f"VM {placement.vm} {did} host {placement.host}{more}, not by this daemon: {cause}"
        )
        if cause != self._cause:
            self._cause = cause
            _log.warn("{why}", why=self.why)


def _likely(seen: Observation, placements: list[Placement]) -> str:
    """Return the likely cause of most of these placements."""
    deployed = sum(placement.deployed for placement in placements)
    if deployed * 2 >= len(placements):
        return SCHEDULER
    cluster = dict(zip(seen.host_id.tolist(), seen.host_cluster.tolist(), strict=True))
    moved = {
        cluster.get(placement.host, NO_HOST) for placement in placements if not placement.deployed
    }
    return DRS if moved & seen.balanced_clusters else ADMINISTRATOR
