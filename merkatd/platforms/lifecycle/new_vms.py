"""New VMs of a platform: their templates, first bids, and replacements of failed VMs.

A VM that OpenNebula could not start, or lost, costs its platform time but no credits; a replacement
may work. If replacements fail too, the VM itself is not the cause. So the wait doubles with each
replacement, and at most `MAX_FAILURES` VMs of a cluster are replaced within `WINDOW_S`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from merkatd.base.quantities import utc_text
from merkatd.cluster import Create, VmState
from merkatd.database.fleets.fleet_store import PlatformMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.fleets.fleet import creation_key
from merkatd.fleets.vm_template_text import has_name, with_attributes
from merkatd.platforms.lifecycle.funds import wanted_amounts
from merkatd.platforms.lifecycle.platform_template import PlatformTemplate
from merkatd.platforms.rules.first_bids import first_bid, reference_price
from merkatd.protocol.platform_messages import Amounts

PLATFORM = "MERKAT_PLATFORM"


def member_factory(
    platform: int, highest: int, entropy: bytes
) -> Callable[[str, int], PlatformMember]:
    """Return a factory for new members, given their cluster and their number among the new ones.

    Creation keys can't be guessed without knowing the entropy.
    """

    def new(cluster: str, place_among_new: int) -> PlatformMember:
        number = highest + place_among_new
        key = creation_key(f"{platform}/{number}", entropy)
        return PlatformMember(key=key, platform=platform, cluster=cluster, number=number)

    return new


def create_step(
    platform: PlatformRow,
    template: PlatformTemplate,
    member: PlatformMember,
    period: int,
    bid: Mapping[str, float],
    handed: Callable[[str], Mapping[str, str]],
) -> Create:
    """Return the step that creates a VM; a VM with a monitor gets the attributes `handed`."""
    cluster = next(each for each in template.clusters if each.name == member.cluster)
    text = platform.vm_templates[cluster.name]
    attributes = {PLATFORM: str(platform.id)}
    if not has_name(text):
        attributes["NAME"] = f"{platform.name}-{cluster.name}-{member.number}"
    if cluster.monitor is not None:
        attributes |= handed(member.key)
    if template.market is not None:
        attributes["MERKAT_MARKET"] = template.market
    for what, amounts in (("BID", bid), ("MIN", cluster.floor), ("MAX", cluster.ceiling)):
        attributes |= {f"MERKAT_{what}_{name.upper()}": repr(amounts[name]) for name in amounts}
    return Create(
        period=period,
        key=member.key,
        template=with_attributes(text, attributes),
        owner=platform.owner,
        reason=f"platform {platform.id} ({platform.name}) needs VM {member.number}"
        f" in {cluster.name}",
    )


def bids_by_cluster(
    platform: PlatformRow,
    template: PlatformTemplate,
    prices: Amounts | None,
    past: Mapping[str, Sequence[float]],
    default: Amounts,
    most: float,
) -> dict[str, dict[str, float]]:
    """Return the first bid of a VM, by cluster."""
    now = prices or {}
    known = {
        name: reference_price(now.get(name, 0.0), past.get(name, ())) for name in {*now, *past}
    }
    return {
        cluster.name: first_bid(
            known, wanted_amounts(cluster, platform.vm_templates[cluster.name]), default, most
        )
        for cluster in template.clusters
    }


MAX_FAILURES = 5
"""The most VMs of a cluster that are replaced within `WINDOW_S`."""
WINDOW_S = 3600.0
"""The time for which a failure counts."""
_HELD, _FAILED = "HOLD", "FAILURE"


@dataclass(frozen=True, slots=True)
class ReplacementTimes:
    """The times at which VMs of one cluster were replaced, oldest first."""

    at_s: tuple[float, ...] = ()

    def since(self, now_s: float) -> "ReplacementTimes":
        """Return the failures that still count."""
        return ReplacementTimes(
            tuple(moment_s for moment_s in self.at_s if abs(now_s - moment_s) < WINDOW_S)
        )

    def next_s(self, interval_s: float) -> float:
        """Return the time of the next possible replacement, on the daemon's clock.

        After the first replacement the wait is one interval, then 2, 4 and 8 intervals.
        """
        if not self.at_s:
            return 0.0
        if len(self.at_s) >= MAX_FAILURES:
            return self.at_s[-MAX_FAILURES] + WINDOW_S
        return self.at_s[-1] + interval_s * 2.0 ** (len(self.at_s) - 1)


@dataclass(frozen=True, slots=True)
class ReplacedVm:
    """A VM that is replaced, and the text for its tenant."""

    key: str
    text: str


OFF_THEIR_HOSTS = frozenset({"STOPPED", "UNDEPLOYED"})
"""OpenNebula's states of a VM that is off and has no host. The daemon brings VMs of owners who
don't pay into these states."""
OUT_OF_SIGHT = "UNKNOWN"
"""OpenNebula's state of a VM without monitoring data: its guest may still run."""


def failing(state: VmState, words: str) -> bool:
    """Return whether a VM has failed for good, and does not recover by itself."""
    return state is VmState.ABSENT and (words == _HELD or words.endswith(_FAILED))


def replaced(
    failed: Mapping[str, Sequence[tuple[str, int, str]]],
    before: Mapping[str, ReplacementTimes],
    now_s: float,
    interval_s: float,
) -> list[ReplacedVm]:
    """Return the failed VMs to replace now: one per cluster whose waiting time has passed.

    `failed` has the key, id and OpenNebula state of each failed VM, by cluster.
    """
    vms = []
    for cluster, rows in failed.items():
        known = before.get(cluster, ReplacementTimes()).since(now_s)
        if not rows or now_s < known.next_s(interval_s):
            continue
        key, vm, words = rows[0]
        after = ReplacementTimes((*known.at_s, now_s))
        text = f"VM {vm} in {cluster} is {words}: a new VM replaces it"
        if len(after.at_s) > 1:
            text += f" (replacement {len(after.at_s)} within an hour)"
        next_text = utc_text(after.next_s(interval_s))
        text += f"; if it fails too, the next replacement is at {next_text} or later"
        vms.append(ReplacedVm(key, text))
    return vms


def exhausted(before: Mapping[str, ReplacementTimes], now_s: float) -> frozenset[str]:
    """Return the clusters that have reached the limit of replacements."""
    return frozenset(
        name for name, known in before.items() if len(known.since(now_s).at_s) >= MAX_FAILURES
    )
