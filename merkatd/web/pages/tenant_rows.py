"""Tenants as a table: who bids, gets and pays what, and for how long that lasts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from merkatd.api.questions.present import Present
from merkatd.market.explanation import BIDDING
from merkatd.web.markup import Markup, Part
from merkatd.web.pages.parts import COLOURS, NONE, amount, bar, credits_, link, span, swatch, table
from merkatd.web.routes import Here

_LONG_S = 1e9


async def tenant_rows(here: Here) -> list[dict[str, Any]]:
    """What tenants bid, get, pay and have left, who pays most first; the visitor's own, or all."""
    standing: Sequence[Mapping[str, Any]] = await here.call("merkat.tenant.list", default=[])
    now = here.now
    shares = await here.house.world.executor.run(partial(_shares, now))
    all_cpu = sum(one.cpu for one in shares.values())
    rows = []
    for one in standing:
        share = shares.get(one["id"], _Share())
        left = one["balance"] + one["in_applications"]
        lasts_s = here.house.world.rhythm.interval_s * left / share.cost if share.cost > 0 else None
        rows.append(
            {
                "owner": one["id"],
                "name": one.get("name") or f"user {one['id']}",
                "balance": left,
                "part": share.cpu / all_cpu if all_cpu > 0 else 0.0,
                "lasts_s": lasts_s,
                **asdict(share),
            }
        )
    return sorted(rows, key=lambda row: (-row["cost"], row["name"]))


@dataclass(frozen=True, slots=True)
class _Share:
    """What the VMs of a tenant bid, get and cost together."""

    vms: int = 0
    bid: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    cost: float = 0.0


def _shares(now: Present) -> dict[int, _Share]:
    """By owner: of those VMs that run, or wait to."""
    vms, gets = now.snapshot.vms, now.given()
    there = np.isin(vms.state, BIDDING)
    owners, at = np.unique(vms.owner[there], return_inverse=True)
    cpu, memory = (now.snapshot.resources.index(name) for name in ("cpu", "memory"))
    columns = (
        vms.bid[there].sum(axis=1),
        gets[there, cpu],
        gets[there, memory],
        now.cost[there].sum(axis=1),
    )
    sums = [np.bincount(at, values, len(owners)).tolist() for values in columns]
    counts = np.bincount(at, minlength=len(owners)).tolist()
    return {
        owner: _Share(count, *values)
        for owner, count, *values in zip(owners.tolist(), counts, *sums, strict=True)
    }


def tenants_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Who pays what, and what for."""
    return table(
        "Tenants: what they bid, get, pay and have left",
        ("Tenant", "VMs", "Bids", "Gets", "", "Pays", "Left", "Lasts"),
        [
            (
                [swatch(row["owner"]), link("tenants", row["owner"], row["name"])],
                row["vms"],
                credits_(row["bid"]) if row["vms"] else NONE,
                amount("cpu", row["cpu"]) if row["vms"] else NONE,
                bar(row["part"], class_=f"t{row['owner'] % COLOURS}"),
                credits_(row["cost"]) if row["vms"] else NONE,
                credits_(row["balance"]),
                _lasts(row["lasts_s"]),
            )
            for row in rows
        ],
        numbers=(1, 2, 3, 5, 6, 7),
        nothing="Nobody has come yet.",
    )


def _lasts(lasts_s: float | None) -> Part:
    if lasts_s is None:
        return NONE
    return span(lasts_s) if lasts_s < _LONG_S else "for ever"
