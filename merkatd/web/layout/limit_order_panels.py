"""Tables, facts and form fields of limit orders."""

from collections.abc import Mapping, Sequence

from merkatd.base.quantities import duration_text
from merkatd.service.limit_quotes import QuotedLimit
from merkatd.service.market.stated_orders import BookedOrder, ListedOrder
from merkatd.web.layout.html import Markup, Part, element, field, input_text
from merkatd.web.layout.row_lists import RowFields
from merkatd.web.layout.widgets import (
    NONE,
    HeadLinks,
    amount,
    credits_text,
    link,
    moment,
    percent,
    table,
    tenant,
)

TERMS = ("limit", "least_run_min", "factor")
"""The fields of an order's terms in forms."""
MINUTE_S = 60.0
_FEW = 6
"""The most VMs of an order that a list names."""


def state_of(order: ListedOrder) -> str:
    """Return whether an order runs, waits for its first start, or was displaced after one."""
    if order.runs:
        return "runs"
    return "waits" if order.since_s is None else "displaced"


def order_sentence(order: ListedOrder) -> str:
    """Return the most important sentence about a limit order."""
    if order.runs:
        return f"Its VMs run, and cost {credits_text(order.cost)} credits a period together."
    if not order.why:
        return "The next period decides whether its VMs run."
    return f"It waits: {order.why}. Its VMs cost nothing."


def order_facts(order: ListedOrder, names: Mapping[int, str]) -> list[tuple[str, Part]]:
    """Return the facts about a limit order."""
    longest = order.limit * order.factor
    after = (
        f"for {duration_text(order.least_run_s)} after each start at most {credits_text(longest)}"
        if order.least_run_s and order.factor > 1
        else "none"
    )
    own = (
        []
        if order.platform is None
        else [("Platform", link("platforms", order.platform, f"platform {order.platform}"))]
    )
    return [
        ("Tenant", tenant(order.owner, names)),
        *own,
        ("Market", order.market or NONE),
        ("VMs", _vm_links(order.vms)),
        ("State", state_of(order)),
        ("Since", moment(order.since_s)),
        ("Limit", f"{credits_text(order.limit)} credits a period"),
        ("Limit in force", f"{credits_text(order.limit_now)} credits a period"),
        ("Protection", after),
        ("Pays", f"{credits_text(order.cost)} credits a period"),
    ]


def _vm_links(vms: Sequence[int]) -> list[Part]:
    parts: list[Part] = []
    for vm in vms[:_FEW]:
        parts += [", " if parts else "", link("vms", vm, f"VM {vm}")]
    return [*parts, f" and {len(vms) - _FEW} more" if len(vms) > _FEW else ""]


def order_fields(names: Mapping[int, str]) -> RowFields[ListedOrder]:
    """Return what a visitor can search and order in the table of limit orders."""
    return RowFields(
        text=lambda row: f"order {row.id} {names.get(row.owner, '')} {' '.join(map(str, row.vms))}",
        orders={
            "Order": lambda row: row.id,
            "Tenant": lambda row: names.get(row.owner),
            "Limit": lambda row: row.limit,
            "Pays": lambda row: row.cost,
        },
        numbers=("Limit", "Pays"),
        filters={"state": state_of},
    )


def orders_table(
    names: Mapping[int, str], orders: Sequence[ListedOrder], links: HeadLinks | None = None
) -> Markup:
    """Return the table of a visitor's limit orders."""
    return table(
        "Limit orders",
        ("Order", "Tenant", "VMs", "State", "Limit", "Pays", "Reason"),
        [
            (
                link("limit-orders", order.id, f"order {order.id}"),
                tenant(order.owner, names),
                _vm_links(order.vms),
                element(
                    "span", state_of(order), class_="badge bad" if order.since_s and not order.runs
                    else "badge"
                ),
                credits_text(order.limit),
                credits_text(order.cost),
                order.why,
            )
            for order in orders
        ],
        numbers=(4, 5),
        nothing="There are no limit orders. State one below for VMs that should run together, for"
        " at most a given cost.",
        links=links,
    )  # fmt: skip


def book_table(goods: Sequence[str], book: Sequence[BookedOrder]) -> Markup:
    """Return the limit orders of a market, of all tenants, without names."""
    return table(
        "Order book",
        ("Pays up to", "Limit", *(name.capitalize() if name != "cpu" else "CPU" for name in goods),
         "State"),
        [
            (
                NONE if order.height is None else f"{order.height:.2f} x the prices",
                credits_text(order.limit),
                *(amount(name, order.bundle[name]) for name in goods),
                "runs" if order.runs else "waits",
            )
            for order in book
        ],
        numbers=tuple(range(2 + len(goods))),
        nothing="There are no limit orders in this market.",
    )  # fmt: skip


def vms_field(values: Mapping[str, str], wrong: Mapping[str, str]) -> Markup:
    """Return the input of a new order's VMs."""
    return field(
        "vms",
        "VMs",
        values.get("vms", ""),
        wrong,
        "Ids or names, separated by blanks. They run together, or not at all.",
        autocomplete="off",
    )


def term_fields(
    values: Mapping[str, str], wrong: Mapping[str, str], order: ListedOrder | None
) -> list[Markup]:
    """Return the inputs of an order's terms; those of an order show its terms."""
    shown = {"limit": "", "least_run_min": "", "factor": ""}
    if order is not None:
        shown = {
            "limit": input_text(order.limit),
            "least_run_min": input_text(order.least_run_s / MINUTE_S),
            "factor": input_text(order.factor),
        }
    rows = (
        ("limit", "Limit", "The most credits a period for all VMs together."),
        (
            "least_run_min",
            "Protected minutes",
            "For so many minutes after each start the limit is higher: a suspension costs time.",
        ),
        ("factor", "Factor", "During that time the limit is so many times as high."),
        ("work_h", "Hours of work", "For the quote: how long the VMs must run. May be empty."),
        ("within_h", "Hours to the deadline", "For the quote. May be empty."),
    )
    return [
        field(
            name,
            label,
            values.get(name) or shown.get(name, ""),
            wrong,
            hint,
            inputmode="decimal",
            autocomplete="off",
        )
        for name, label, hint in rows
    ]


def quoted_parts(quoted: QuotedLimit) -> list[Part]:
    """Return the limit that would start an order now, and the odds of limits."""
    starts = (
        "No limit would start these VMs together now."
        if quoted.limit_to_start is None
        else f"A limit of {credits_text(quoted.limit_to_start)} credits a period would start these"
        " VMs now, if hosts have room for each of them."
    )
    rows = [
        (
            credits_text(odds.limit),
            percent(odds.part),
            credits_text(odds.cost),
            f"{odds.stops_per_day:.1f}",
            *(() if quoted.within_s is None else (percent(odds.chance),)),
        )
        for odds in quoted.odds
    ]
    heads = ["Limit", "Would have run", "Average cost", "Suspensions a day"]
    if quoted.within_s is not None:
        heads.append("Done in time")
    known = (
        f"Too little is known: {quoted.why}."
        if quoted.why
        else f"In the recorded past of {duration_text(quoted.history_s)}:"
    )
    return [
        element("p", starts),
        element("p", known, class_="quiet"),
        table("The odds of the limit", heads, rows, numbers=tuple(range(len(heads))))
        if rows
        else None,
    ]
