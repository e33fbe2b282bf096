"""VMs of a platform that have failed, or are held: which are made anew now, and which later.

A VM that OpenNebula could not start, or lost, costs its platform time and no credit; another one
in its place may do better. Where each fails like the one before, it is not the VM that is broken:
so each time it is waited twice as long, and in an hour no more than so many are replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from merkatd.cluster import VmState
from merkatd.platforms.words import at

MOST = 5
"""So many of a cluster are replaced"""
WINDOW_S = 3600.0
"""within this time."""
_HELD, _FAILED = "HOLD", "FAILURE"


@dataclass(frozen=True, slots=True)
class Failures:
    """Of one cluster: when its VMs were found to have failed and replaced, oldest first."""

    at_s: tuple[float, ...] = ()

    def since(self, now_s: float) -> "Failures":
        """Those that count still."""
        return Failures(tuple(one for one in self.at_s if abs(now_s - one) < WINDOW_S))

    def next_s(self, interval_s: float) -> float:
        """When another may be replaced, on the daemon's clock."""
        if not self.at_s:
            return 0.0
        if len(self.at_s) >= MOST:
            return self.at_s[-MOST] + WINDOW_S
        return self.at_s[-1] + interval_s * 2.0 ** (len(self.at_s) - 1)


@dataclass(frozen=True, slots=True)
class Replaced:
    """One that is ended and made anew, and how that is told."""

    key: str
    text: str


OFF_THEIR_HOSTS = frozenset({"STOPPED", "UNDEPLOYED"})
"""What OpenNebula calls a VM that is off and has no host. The daemon brings those of owners there
that do not pay."""

OUT_OF_SIGHT = "UNKNOWN"
"""What OpenNebula calls a VM of which it hears nothing: its guest may compute on."""


def failing(state: VmState, words: str) -> bool:
    """Whether a VM is of no use, and will not be of any by itself."""
    return state is VmState.ABSENT and (words == _HELD or words.endswith(_FAILED))


def replaced(
    failed: Mapping[str, Sequence[tuple[str, int, str]]],
    before: Mapping[str, Failures],
    now_s: float,
    interval_s: float,
) -> list[Replaced]:
    """Those of the failed that are replaced now: of each cluster one, where its time has come.

    `failed` are by cluster: their keys, their ids, and what OpenNebula calls their state.
    """
    found = []
    for cluster, rows in failed.items():
        known = before.get(cluster, Failures()).since(now_s)
        if not rows or now_s < known.next_s(interval_s):
            continue
        key, vm, words = rows[0]
        after = Failures((*known.at_s, now_s))
        text = f"VM {vm} in {cluster} is {words}: another is made in its place"
        if len(after.at_s) > 1:
            text += f", the {len(after.at_s)}th within an hour"
        text += f"; where one fails again, none is before {at(after.next_s(interval_s))}"
        found.append(Replaced(key, text))
    return found


def exhausted(before: Mapping[str, Failures], now_s: float) -> frozenset[str]:
    """Clusters of which no more are replaced for now."""
    return frozenset(name for name, known in before.items() if len(known.since(now_s).at_s) >= MOST)
