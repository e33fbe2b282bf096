"""VMs as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.web.markup import Markup
from merkatd.web.pages.parts import amount, credits_, link, swatch, table


def vms_table(rows: Sequence[Mapping[str, Any]], hosts: Mapping[str, int]) -> Markup:
    """What each bids, gets and pays."""
    return table(
        "VMs: what each bids, gets and pays",
        ("VM", "Tenant", "State", "Host", "Bid for CPU", "Gets", "Memory", "Pays", "Why not more"),
        [
            (
                link("vms", row["id"], row["name"] or f"VM {row['id']}"),
                [swatch(row["owner"]), link("tenants", row["owner"], owner_name(row))],
                row["state"].lower(),
                link("hosts", hosts.get(row["host"] or ""), row["host"]),
                credits_(row["bid_cpu"]),
                amount("cpu", row["cpu"]),
                amount("memory", row["memory"]),
                credits_(row["cost"]),
                row["message"] or "",
            )
            for row in rows
        ],
        numbers=(4, 5, 6, 7),
        nothing="There are no VMs.",
    )


def owner_name(row: Mapping[str, Any]) -> str:
    """The tenant's name, as far as it is known."""
    return row["owner_name"] or f"user {row['owner']}"
