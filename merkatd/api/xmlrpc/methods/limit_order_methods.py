"""The methods about limit orders."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from merkatd.api.values.limit_order_rows import book_row, limit_order_row, limit_quote_row
from merkatd.api.values.market_arguments import amounts_of
from merkatd.api.xmlrpc.method_table import Parameter, Returns, method, struct, structs
from merkatd.base.quantities import quoted_value
from merkatd.service.base.arguments import text
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.order_limits import SMALL
from merkatd.service.limit_quotes import Bundle, QuotedTerms
from merkatd.service.services import DaemonServices

_ORDER = Parameter("order", "int", "The limit order's id.")
_TERMS = ("limit", "least_run_s", "factor")
_QUOTED_TERMS = ("work_s", "within_s", "limits")
ODDS = {
    "limit": "The limit, in credits a period.",
    "part": "The part of the past in which it would have run.",
    "stops_per_day": "How often a day its VMs would have been suspended.",
    "cost": "The average cost of a period of running; left out if it would never have run.",
    "chance": "The chance that the VMs run `work_s` within `within_s`; left out without a"
    " deadline, or if the recorded past is too short.",
}
_ID = Returns("int", "The limit order's id.", {}, {})


@method(
    "merkat.order.set",
    Parameter("vms", "array", "The ids of its VMs, 1 to 1000."),
    Parameter("limit", "double", "The most credits a period for all its VMs together."),
    Parameter(
        "least_run_s",
        "double",
        "The seconds after each start for which `factor` applies, at most 30 days.",
        0.0,
    ),
    Parameter(
        "factor",
        "double",
        "For `least_run_s` after each start the limit is `limit` times this, 1 to 100.",
        1.0,
    ),
    returns=_ID,
    example="[vm], 3.5, 600.0, 2.0",
    order=SMALL,
)
async def order_set(
    services: DaemonServices,
    caller: Caller,
    vms: list[Any],
    limit: float,
    least_run_s: float,
    factor: float,
) -> int:
    """Run all these VMs at full size while they cost at most the limit together, else none of them.

    A repeated call returns the same limit order.
    """
    if len(vms) > 1 and not caller.is_admin:  # the right to each VM is checked in OpenNebula
        services.orders.count(caller.uid, SMALL * (len(vms) - 1), vms)
    view = (await services.views.prepared()).now
    return (await services.limit_orders.state(caller, view, vms, limit, least_run_s, factor)).id


@method(
    "merkat.order.change",
    _ORDER,
    Parameter("terms", "struct", "`limit`, `least_run_s`, `factor`; a missing one stays."),
    returns=_ID,
    example='order, {"limit": 4.0}',
    order=SMALL,
)
async def order_change(
    services: DaemonServices, caller: Caller, order: int, terms: Mapping[str, Any]
) -> int:
    """Change the terms of a limit order from the next period on."""
    _only("terms", terms, _TERMS)
    view = (await services.views.prepared()).now
    return (await services.limit_orders.change(caller, view, order, **terms)).id


@method("merkat.order.delete", _ORDER, returns=_ID, example="order", order=SMALL)
async def order_delete(services: DaemonServices, caller: Caller, order: int) -> int:
    """Delete a limit order: the bids of its VMs count again from the next period on."""
    view = (await services.views.prepared()).now
    return (await services.limit_orders.withdraw(caller, view, order)).id


@method(
    "merkat.order.list",
    returns=structs(
        "A struct for each limit order of the caller; for an administrator, all limit orders.",
        {
            "id": "The limit order's id.",
            "owner": "The id of its VMs' owner, who pays.",
            "owner_name": "The name of that user.",
            "market": "The market of its VMs.",
            "vms": "The ids of its VMs.",
            "limit": "The most credits a period for all its VMs together.",
            "limit_now": "The limit in force: `limit`, or `limit` times `factor` after a start.",
            "least_run_s": "The seconds after each start for which `factor` applies.",
            "factor": "The multiple of the limit that applies after a start.",
            "runs": "Whether its VMs run.",
            "since_s": "The time of its last start or stop; left out if it never ran.",
            "cost": "The credits a period that it pays, 0 while it waits; left out if it took part"
            " in no market yet.",
            "why": "The reason why it waits.",
            "stated_s": "The time when it was stated.",
            "platform": "The platform that it belongs to, and that alone changes it, if any.",
        },
    ),
    example="",
)
async def order_list(services: DaemonServices, caller: Caller) -> Any:
    """Return the limit orders of the caller's VMs; for an administrator, all limit orders."""
    view = (await services.views.prepared()).now
    read = partial(services.limit_orders.orders, caller, view)
    return [limit_order_row(order) for order in await services.long_reads.run(caller.uid, read)]


@method(
    "merkat.order.book",
    Parameter("market", "string", "The market; by default the first.", ""),
    returns=structs(
        "A struct for each limit order of all tenants, from the largest height.",
        {
            "height": "The multiple of slow prices that it can pay for its bundle; left out"
            " if nothing has a price.",
            "limit": "The limit in force, in credits a period.",
            "runs": "Whether its VMs run.",
            "cpu": "The CPU of its bundle, in percent of a core.",
            "memory": "The memory of its bundle, in MiB.",
            "network": "The network of its bundle, in Mbit/s, if network is sold.",
            "disk": "The disk bandwidth of its bundle, in MiB/s, if it is sold.",
        },
    ),
    example='"default"',
)
async def order_book(services: DaemonServices, caller: Caller, market: str) -> Any:
    """Return the limit orders of a market, of all tenants, without names and owners."""
    view = (await services.views.prepared()).now
    read = partial(services.limit_orders.book, caller, view, market or None)
    return [book_row(order) for order in await services.long_reads.run(caller.uid, read)]


@method(
    "merkat.order.quote",
    Parameter("vms", "array", "The ids of its VMs; empty for VMs that do not exist yet."),
    Parameter(
        "size",
        "struct",
        "If `vms` is empty: what its VMs use together, `cpu` in percent of a core, `memory` in MiB"
        " (`network`, `disk` if they are sold), and `market` (by default the first).",
        {},
    ),
    Parameter(
        "terms",
        "struct",
        "`work_s`: the seconds that the VMs must run, and `within_s`: the seconds until the"
        " deadline; `limits`: the limits to show, by default five around the present need.",
        {},
    ),
    returns=struct(
        "The limit that would start the order now, and what limits did in the recorded past.",
        {
            "market": "The market.",
            "vms": "The ids of its VMs.",
            "limit_to_start": "The least limit that would start it now, if hosts have room for"
            " each VM; left out if no limit would be enough.",
            "history_s": "The time that the recorded past covers, in seconds.",
            "windows": "How many times the recorded past is as long as the time until the deadline;"
            " left out without a deadline.",
            "work_s": "The seconds that the VMs must run, if the call gave any.",
            "within_s": "The seconds until the deadline, if the call gave any.",
            "why": "Why `odds` or chances are missing; empty if they are not.",
            "cpu": "The CPU that its VMs use together, in percent of a core.",
            "memory": "Their memory, in MiB.",
            "network": "Their network, in Mbit/s, if network is sold.",
            "disk": "Their disk bandwidth, in MiB/s, if it is sold.",
            "odds": "A struct for each limit, empty if the recorded past is too short:",
        },
        ODDS,
    ),
    example='[vm], {}, {"work_s": 3600.0, "within_s": 14400.0}',
)
async def order_quote(
    services: DaemonServices,
    caller: Caller,
    vms: list[Any],
    size: Mapping[str, Any],
    terms: Mapping[str, Any],
) -> Any:
    """Return what limit would start an order now, and how often limits ran in the recorded past."""
    _only("size", size, (*services.world.goods.resources, "market"))
    _only("terms", terms, _QUOTED_TERMS)
    if vms and size:
        raise InvalidRequestError("vms and size: only one of the two may be given")
    if not caller.is_admin:  # the right to each VM may be checked in OpenNebula
        services.orders.count(caller.uid, SMALL * max(len(vms), 1), vms)
    view = await services.views.prepared()
    if vms:
        bundle = Bundle(vms=vms)
    else:
        bundle = Bundle(market=text(size, "market"), amounts=amounts_of(size))
    quoted = partial(services.limit_quotes.quote, caller, view, bundle, QuotedTerms(**terms))
    return limit_quote_row(await services.long_reads.run(caller.uid, quoted))


def _only(argument: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise InvalidRequestError if a struct has an unknown member."""
    for name in given:
        if name not in known:
            raise InvalidRequestError(
                f"{argument}: unknown member {quoted_value(name)}; known: {', '.join(known)}"
            )
