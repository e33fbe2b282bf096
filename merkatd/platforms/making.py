"""The VMs that a platform has made: their keys, their templates, their first bids."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from uuid import UUID

from merkatd.cluster import Create
from merkatd.database.fleets.fleet_store import Member
from merkatd.database.fleets.platform_store import Platform
from merkatd.platforms.first_bid import first_bid, reference_price
from merkatd.platforms.ports import Amounts
from merkatd.platforms.purses import wanted_by
from merkatd.platforms.template import Template
from merkatd.platforms.vm_text import named, with_attributes

PLATFORM = "MERKAT_PLATFORM"


def numbered(platform: int, highest: int, entropy: bytes) -> Callable[[str, int], Member]:
    """Gives new members of a platform: of a cluster, the so-many-eth of now.

    Nobody can guess a key who does not know the entropy.
    """

    def new(cluster: str, at: int) -> Member:
        number = highest + at
        said = f"{platform}/{number}".encode()
        key = UUID(bytes=blake2b(said, key=entropy, digest_size=16).digest(), version=4)
        return Member(key=str(key), platform=platform, cluster=cluster, number=number)

    return new


def created(
    platform: Platform,
    template: Template,
    one: Member,
    period: int,
    bid: Mapping[str, float],
    handed: Callable[[str], Mapping[str, str]],
) -> Create:
    """The step that makes a VM; what is `handed` to it by its key where it is watched."""
    cluster = next(each for each in template.clusters if each.name == one.cluster)
    text = platform.vm_templates[cluster.name]
    said = {PLATFORM: str(platform.id)}
    if not named(text):
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
    platform: Platform,
    template: Template,
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
            known, wanted_by(cluster, platform.vm_templates[cluster.name]), default, most
        )
        for cluster in template.clusters
    }
