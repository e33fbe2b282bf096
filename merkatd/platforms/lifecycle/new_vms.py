"""VMs that a platform makes: templates, first bids, replacements of those that failed.

A VM that OpenNebula could not start, or lost, costs its platform time and no credit; another one
in its place may do better. Where each fails like the one before, it is not the VM that is broken:
so each time it is waited twice as long, and in an hour no more than so many are replaced.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import fsum, isfinite
from uuid import UUID

from merkatd.base.quantities import utc_text
from merkatd.cluster import Create, VmState
from merkatd.database.fleets.fleet_store import PlatformMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.fleets.vm_template_text import has_name, with_attributes
from merkatd.platforms.lifecycle.funds import wanted_amounts
from merkatd.platforms.lifecycle.platform_template import PlatformTemplate
from merkatd.protocol.platform_messages import Amounts


def reference_price(present: float, past: Sequence[float]) -> float:
    """The higher of the present price and the mean of those before: a moment's low is no offer."""
    known = [price for price in past if isfinite(price)]
    mean = fsum(known) / len(known) if known else 0.0
    return max(present if isfinite(present) else 0.0, mean)


def first_bid(prices: Amounts, wanted: Amounts, default: Amounts, most: float) -> dict[str, float]:
    """Credits per period, by resource, `most` in all.

    What nobody has paid for yet is bid for as for any VM of which nobody spoke.
    """
    bid: Mapping[str, float] = {
        name: prices[name] * amount if prices.get(name, 0.0) > 0 else default.get(name, 0.0)
        for name, amount in wanted.items()
    }
    whole = fsum(bid.values())
    part = min(1.0, most / whole) if whole > 0 else 0.0
    return {name: amount * part for name, amount in bid.items()}


PLATFORM = "MERKAT_PLATFORM"


def member_factory(
    platform: int, highest: int, entropy: bytes
) -> Callable[[str, int], PlatformMember]:
    """Gives new members of a platform: of a cluster, the so-many-eth of now.

    Nobody can guess a key who does not know the entropy.
    """

    def new(cluster: str, at: int) -> PlatformMember:
        number = highest + at
        said = f"{platform}/{number}".encode()
        key = UUID(bytes=blake2b(said, key=entropy, digest_size=16).digest(), version=4)
        return PlatformMember(key=str(key), platform=platform, cluster=cluster, number=number)

    return new


def create_step(
    platform: PlatformRow,
    template: PlatformTemplate,
    one: PlatformMember,
    period: int,
    bid: Mapping[str, float],
    handed: Callable[[str], Mapping[str, str]],
) -> Create:
    """The step that makes a VM; what is `handed` to it by its key where it is watched."""
    cluster = next(each for each in template.clusters if each.name == one.cluster)
    text = platform.vm_templates[cluster.name]
    said = {PLATFORM: str(platform.id)}
    if not has_name(text):
        said["NAME"] = f"{platform.name}-{cluster.name}-{one.number}"
    if cluster.monitor is not None:
        said |= handed(one.key)
    if template.market is not None:
        said["MERKAT_MARKET"] = template.market
    for what, amounts in (("BID", bid), ("MIN", cluster.floor), ("MAX", cluster.ceiling)):
        said |= {f"MERKAT_{what}_{name.upper()}": repr(amounts[name]) for name in amounts}
    return Create(
        period=period,
        key=one.key,
        template=with_attributes(text, said),
        owner=platform.owner,
        reason=f"platform {platform.id} ({platform.name}) needs VM {one.number} in {cluster.name}",
    )


def bids_by_cluster(
    platform: PlatformRow,
    template: PlatformTemplate,
    prices: Amounts | None,
    past: Mapping[str, Sequence[float]],
    default: Amounts,
    most: float,
) -> dict[str, dict[str, float]]:
    """The first bid of a VM of each cluster."""
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
        if len(self.at_s) >= MAX_FAILURES:
            return self.at_s[-MAX_FAILURES] + WINDOW_S
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
        text += f"; where one fails again, none is before {utc_text(after.next_s(interval_s))}"
        found.append(Replaced(key, text))
    return found


def exhausted(before: Mapping[str, Failures], now_s: float) -> frozenset[str]:
    """Clusters of which no more are replaced for now."""
    return frozenset(
        name for name, known in before.items() if len(known.since(now_s).at_s) >= MAX_FAILURES
    )
