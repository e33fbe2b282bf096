"""The VMs of a simulated cloud: their operations in virtual time, and their history records."""

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import Final

import numpy as np

from merkatd.base.clock import Clock
from merkatd.cluster import Floats, Ints, VmState
from merkatd.cluster.columns import NO_HOST
from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.ports import NO_RECORD
from simulator.model.simulated_cloud import CORE, OperationCosts


class Life(IntEnum):
    """The state of a VM in the cloud."""

    PENDING = 0
    BOOTS = 1
    RUNS = 2
    SAVES = 3
    STOPPED = 4
    MOVES = 5
    GONE = 6


WORDS: Final = ("PENDING", "BOOT", "RUNNING", "SAVE_STOP", "STOPPED", "MIGRATE")
"""OpenNebula's names of the states."""
_OBSERVED: Final = np.array(
    [
        *(VmState.PENDING, VmState.BUSY, VmState.RUNNING, VmState.BUSY, VmState.ABSENT),
        VmState.BUSY,
    ],
    dtype=np.int64,
)
"""The states as the daemon observes them."""


class SimulatedVms:
    """All VMs by id. A VM is created pending, and its row stays after its end."""

    def __init__(
        self,
        clock: Clock,
        costs: OperationCosts,
        most: int,
        announce: Callable[[], object],
        moved: Callable[[Life, Life, Sequence[int]], object],
    ) -> None:
        """`most` VMs are created at most.

        `announce` is called after changes of which OpenNebula sends events, and `moved` after all
        changes with the old and the new state of VMs.
        """
        self._clock, self._costs = clock, costs
        self._announce, self._moved = announce, moved
        self.count = 0
        """The number of VMs created so far."""
        self.life = np.zeros(most, dtype=np.int8)
        self.host = np.full(most, NO_HOST, dtype=np.int64)
        self.owner = np.zeros(most, dtype=np.int64)
        self.memory_mib = np.zeros(most)
        self.source = np.full(most, NO_HOST, dtype=np.int64)
        """The host that each VM leaves by a migration, until the daemon sees its end."""
        self.moved_at_s = np.full(most, np.nan)
        """When the daemon saw the end of each VM's last migration."""
        self._sent_s = np.full(most, -np.inf)
        """The time of the last step of each VM."""
        self._outstanding = np.zeros(most, dtype=bool)
        self._record = np.tile(np.array(NO_RECORD[:3], dtype=np.int64), (most, 1))
        self._saved = np.zeros(most, dtype=bool)

    def create(self, owner: int, memory_mib: float) -> int:
        """Create a pending VM and return its id."""
        vm = self.count
        self.owner[vm], self.memory_mib[vm] = owner, memory_mib
        self.count += 1
        return vm

    @property
    def present(self) -> Ints:
        """Return the ids of VMs that have not ended."""
        return np.flatnonzero(self.life[: self.count] != Life.GONE)

    def judge_steps(self, settle_s: float) -> None:
        """Forget the steps whose effects the daemon sees now: it waits until they have settled."""
        rows = np.flatnonzero(self._outstanding[: self.count])
        aged = np.abs(self._clock.seconds() - self._sent_s[rows]) >= settle_s
        done = rows[aged & ~np.isin(self.life[rows], (Life.BOOTS, Life.SAVES, Life.MOVES))]
        self._outstanding[done] = False
        moved = done[self.source[done] != NO_HOST]
        self.source[moved], self.moved_at_s[moved] = NO_HOST, self._clock.seconds()

    def is_outstanding(self, vm: int) -> bool:
        """Return whether a step of the VM is outstanding, so that it gets no other."""
        return bool(self._outstanding[vm])

    def observed_states(self, vms: Ints) -> Ints:
        """Return the state of each VM as the daemon observes it."""
        states: Ints = _OBSERVED[self.life[vms]]
        return states

    def states(self, vms: Ints) -> Ints:
        """Return the states of VMs in the market.

        A VM whose guest boots counts as off. One on a host whose step has not settled is busy.
        """
        state = self.observed_states(vms)
        state[self.life[vms] == Life.BOOTS] = int(VmState.POWERED_OFF)
        placed = self.host[vms] != NO_HOST
        state[self._outstanding[vms] & (state == VmState.RUNNING) & placed] = int(VmState.BUSY)
        return state

    def words(self, vms: Ints) -> list[str]:
        """Return OpenNebula's name of each VM's state."""
        return [WORDS[life] for life in self.life[vms].tolist()]

    def sizes(self, vms: Ints) -> Floats:
        """Return [vms, resources]: the full size of each VM."""
        return np.stack([np.full(len(vms), CORE), self.memory_mib[vms]], axis=1)

    def records(self, vms: Ints) -> LastRecords:
        """Return the last history records of VMs, also of VMs that have ended."""
        return LastRecords(vms, self._record[vms])

    @property
    def saved(self) -> Ints:
        """Return the ids of VMs that are saved without a host."""
        return np.flatnonzero(self.life[: self.count] == Life.STOPPED)

    def was_saved(self, vm: int) -> bool:
        """Return whether a VM without a host was saved, so that it continues on its next host."""
        return bool(self._saved[vm])

    def deploy(self, vms: Sequence[int], hosts: Sequence[int]) -> None:
        """Start VMs of the same size on hosts."""
        rows = self._sent(vms)
        self.host[rows] = hosts
        self._record[rows, 0] += 1
        self._record[rows, 1], self._record[rows, 2] = int(self._clock.seconds()), 0
        memory_mib = float(self.memory_mib[rows[0]])
        saved = bool(self._saved[rows[0]])
        self._saved[rows] = False
        takes_s = self._costs.resume_s(memory_mib) if saved else self._costs.boot_s
        self._enter(rows, Life.BOOTS)
        self._clock.callLater(takes_s, self._run, rows)

    def save(self, vms: Sequence[int]) -> None:
        """Save VMs of the same size; they leave their hosts when they are saved."""
        rows = self._sent(vms)
        self._enter(rows, Life.SAVES)
        takes_s = self._costs.suspend_s(float(self.memory_mib[rows[0]]))
        self._clock.callLater(takes_s, self._stop, rows)

    def migrate(self, vm: int, host: int) -> None:
        """Start the live migration of a running VM."""
        rows = self._sent([vm])
        self.source[vm], self.host[vm] = self.host[vm], host
        self._enter(rows, Life.MOVES)
        takes_s = self._costs.migrate_s(float(self.memory_mib[vm]))
        self._clock.callLater(takes_s, self._run, rows)

    def resume(self, vms: Sequence[int]) -> None:
        """Make saved VMs pending."""
        rows = self._sent(vms)
        self._enter(rows, Life.PENDING)
        self._announce()

    def terminate(self, vms: Sequence[int]) -> None:
        """End VMs; that takes no time."""
        rows = self._sent(vms)
        runs = rows[(self._record[rows, 1] > 0) & (self._record[rows, 2] == 0)]
        self._record[runs, 2] = int(self._clock.seconds())
        self.host[rows] = NO_HOST
        self._outstanding[rows] = False
        self._enter(rows, Life.GONE)
        self._announce()

    def _sent(self, vms: Collection[int]) -> Ints:
        rows = np.array(vms, dtype=np.int64)
        self._sent_s[rows], self._outstanding[rows] = self._clock.seconds(), True
        return rows

    def _run(self, rows: Ints) -> None:
        self._enter(rows, Life.RUNS)
        self._announce()

    def _stop(self, rows: Ints) -> None:
        self._record[rows, 2] = int(self._clock.seconds())
        self.host[rows], self._saved[rows] = NO_HOST, True
        self._enter(rows, Life.STOPPED)
        self._announce()

    def _enter(self, rows: Ints, life: Life) -> None:
        before = Life(int(self.life[rows[0]]))
        self.life[rows] = life
        self._moved(before, life, rows.tolist())
