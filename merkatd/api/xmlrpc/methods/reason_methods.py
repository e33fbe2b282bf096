"""The methods about reasons: of prices, of refused requests, and of applications' utilities."""

from functools import partial
from typing import Any

from merkatd.api.values.market_rows import flat_row
from merkatd.api.xmlrpc.method_table import Parameter, method, struct, structs
from merkatd.service.base.callers import Caller
from merkatd.service.services import DaemonServices


@method(
    "merkat.price.explain",
    Parameter("resource", "string", "`cpu`, `memory` ...; by default all.", ""),
    Parameter("market", "string", "The market; by default all.", ""),
    returns=structs(
        "How the present price of each resource came about, without numbers of single tenants.",
        {
            "market": "The market.",
            "resource": "`cpu` or `memory`; `network` or `disk` if they are sold.",
            "period": "The number of the period.",
            "at_s": "The time of its announcement, in seconds since the epoch.",
            "price": "Credits for a unit and a period; left out if no price clears the market.",
            "reserve": "The least price.",
            "rule": "The market's price rule: `clearing` or `paper`.",
            "strategy": "The market's strategy.",
            "capacity": "What the hosts have together.",
            "floors": "The sum of the floors of the VMs with a host.",
            "wanted": "What the VMs with a host can use together.",
            "bids": "The sum of their bids, in credits a period.",
            "bidders": "The number of VMs with a host that bid.",
            "waiting": "The number of VMs that wait for a host; their bids do not count yet.",
            "price_with_less": "The price if each bid were a tenth lower; left out if infinite.",
            "why": "The reason for the price, as a sentence.",
        },
    ),
    example='"cpu"',
)
async def price_explain(
    services: DaemonServices, _caller: Caller, resource: str, market: str
) -> Any:
    """Explain prices: capacity, floors, bids, rule, and the price with lower bids."""
    reasons = await services.price_reasons.explain(resource or None, market or None)
    return [flat_row(reason) for reason in reasons]


@method(
    "merkat.refusal.list",
    returns=structs(
        "The newest refused requests, the newest first: the caller's own, for administrators those"
        " of all users. A restart of the daemon forgets them.",
        {
            "at_s": "The time of the request, in seconds since the epoch.",
            "user": "The name of the user.",
            "request": "The call, for example `merkat.bid.set`.",
            "reason": "The reason.",
        },
    ),
    example="",
)
async def refusal_list(services: DaemonServices, caller: Caller) -> Any:
    """Return refused bids, orders, VMs and platforms, with the reasons."""
    return [flat_row(refused) for refused in services.refusals.last(caller)]


@method(
    "merkat.application.explain",
    Parameter("application", "int", "The application's id, as in `merkat.application.list`."),
    returns=struct(
        "Where the application stands.",
        {
            "application": "The application's id.",
            "name": "Its name.",
            "owner": "The id of its owner.",
            "owner_name": "The name of its owner.",
            "market": "Its market.",
            "period": "The period of the explanation.",
            "at_s": "The time of that period's announcement.",
            "vms": "The number of its VMs.",
            "utility": "Its utility: 0 if it just reaches its goal; left out if the strategy of its"
            " market knows none.",
            "sentence": "Its utility, what it predicts, and what its goal takes, in a sentence.",
            "payers": "The applications that would have less if it got what its goal takes, at most"
            " ten (for administrators only).",
        },
    ),
    example="application",
)
async def application_explain(services: DaemonServices, caller: Caller, application: int) -> Any:
    """Explain where an application stands: its utility, what it predicts, what its goal takes."""
    view = await services.views.prepared()
    turn = partial(services.long_reads.run, caller.uid)
    standings = services.application_standings
    return flat_row(await standings.explain(caller, view.now, application, turn))
