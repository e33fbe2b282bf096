"""Tenants as a table: who bids, gets and pays what, and for how long that lasts."""

from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.web.markup import Markup, Part, h
from merkatd.web.pages.parts import COLOURS, NONE, amount, bar, credits_, link, span, swatch, table
from merkatd.web.routes import Here

_MOST = 20
_LONG_S = 1e9


async def tenant_rows(here: Here) -> list[dict[str, Any]]:
    """What tenants bid, get, pay and have left, who pays most first; the visitor's own, or all."""
    standing: Sequence[Mapping[str, Any]] = await here.call("merkat.tenant.list")
    rows = {
        one["id"]: {
            "owner": one["id"],
            "name": one.get("name") or f"user {one['id']}",
            "balance": one["balance"] + one["in_applications"],
            "vms": 0,
            "bid": 0.0,
            "cpu": 0.0,
            "memory": 0.0,
            "cost": 0.0,
        }
        for one in standing
    }
    interval_s = here.house.world.rhythm.interval_s
    all_cpu = 0.0
    for one in await here.ask("applications"):
        all_cpu += one["cpu"]
        row = rows.get(one["owner"])
        if row is None:
            continue
        row["vms"] += one["running"] + one["pending"]
        row["cost"] += one["cost"]
        row["cpu"] += one["cpu"]
        row["memory"] += one["memory"]
        row["bid"] += sum(value for name, value in one.items() if name.startswith("bid_"))
    for row in rows.values():
        row["part"] = row["cpu"] / all_cpu if all_cpu > 0 else 0.0
        row["lasts_s"] = interval_s * row["balance"] / row["cost"] if row["cost"] > 0 else None
    return sorted(rows.values(), key=lambda row: (-row["cost"], row["name"]))


def tenants_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Who pays what, and what for."""
    found = table(
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
            for row in rows[:_MOST]
        ],
        numbers=(1, 2, 3, 5, 6, 7),
        nothing="Nobody has come yet.",
    )
    if len(rows) <= _MOST:
        return found
    return h("div", found, h("p", h("a", f"All {len(rows)} tenants", href="/tenants")))


def _lasts(lasts_s: float | None) -> Part:
    if lasts_s is None:
        return NONE
    return span(lasts_s) if lasts_s < _LONG_S else "for ever"
