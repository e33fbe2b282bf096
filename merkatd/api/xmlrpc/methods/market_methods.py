"""The methods about prices, quotes, bids, and explanations of a VM's share."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from merkatd.api.values.market_arguments import planned_vm_of
from merkatd.api.values.market_rows import (
    bid_change_row,
    bid_row,
    explanation_row,
    past_price_row,
    quote_row,
)
from merkatd.api.xmlrpc.codec import Encoded
from merkatd.api.xmlrpc.method_table import Parameter, method, struct, structs, written_prices
from merkatd.base.quantities import quoted_value
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.order_limits import SMALL
from merkatd.service.market.quotes import LEAST, MOST, Amounts, ExistingVm
from merkatd.service.services import DaemonServices

MOST_PERIODS = 1000
"""The most periods of prices in a call."""
_FEW_PERIODS = 120
"""The most periods that are read at once, as pages do; more wait for a turn of the long reads."""
NEW_VM = -1

_VM = Parameter("vm", "int", "The VM's id.")
_ANY_VM = Parameter("vm", "int", "The VM's id; -1 for a planned VM.")
_SIZE = Parameter(
    "size",
    "struct",
    "The size of a planned VM: `most_cpu`, `most_memory` (its caps, by default all of a host);"
    " `least_cpu`, `least_memory` (its floors, by default 0); the same for `network` and `disk` if"
    " they are sold; and `market` (by default the first).",
    {},
)
_BID = (
    "by resource (`cpu`, `memory`; `network`, `disk` if they are sold), in credits a period; a"
    " missing resource keeps its bid."
)
_RESOURCE = "`cpu` or `memory`; `network` or `disk` if they are sold."
_IN_ORDER = "Its limit order, if it is in one: then its own bid does not count."
_ABOUT = {
    "id": "The id of an existing VM.",
    "name": "The name of an existing VM.",
    "host": "Its host, or the host that would be tried first. Left out if it fits on no host: then"
    " the shares are those on a single host with the whole market's capacity.",
    "market": "Its market.",
    "period": "The period of the quote's data.",
    "rate": "Credits per core used for a period, if the market charges for use.",
    "cost": "The cost of a whole period for all resources; the most if the market charges for use."
    " Left out if a resource can't be bought.",
    "resources": "A struct for each resource:",
}
_QUOTED = {
    "resource": "`cpu` (in percent of a core) or `memory` (in MiB); `network` (in Mbit/s each way)"
    " or `disk` (in MiB/s) if they are sold.",
    "wanted": "The wanted amount, if the call gave any.",
    "bid": "The bid, in credits a period; left out if no bid gets the wanted amount.",
    "share": "The share with that bid; if no bid gets the wanted amount, the largest share.",
    "most": "The VM's cap.",
    "price": "The price of a unit with this bid; left out if no price clears the market.",
    "cost": "The cost of a whole period in credits.",
}


@method(
    "merkat.price.info",
    Parameter("market", "string", "The market; by default all.", ""),
    returns=structs(
        "The present price of each resource.",
        {
            "market": "The market.",
            "resource": _RESOURCE,
            "price": "Credits for a percent of a core, a MiB, a Mbit/s or a MiB/s, for a period;"
            " left out if no price clears the market.",
            "period": "The number of the period.",
            "at_s": "The time of its announcement, in seconds since the epoch.",
        },
    ),
    example='"default"',
)
async def price_info(services: DaemonServices, _caller: Caller, market: str) -> Encoded:
    """Return the present price of a unit of each resource."""
    return written_prices(services).of(services, market)


@method(
    "merkat.price.history",
    Parameter("periods", "int", f"The number of periods, 1 to {MOST_PERIODS}.", 60),
    Parameter("market", "string", "The market; by default all.", ""),
    returns=structs(
        "A struct for each period and market, the oldest first.",
        {
            "period": "The number of the period.",
            "at_s": "The time of its start.",
            "market": "The market.",
            "cpu": "Credits for a percent of a core for a period; left out if no price cleared.",
            "memory": "Credits for a MiB for a period; left out if no price cleared.",
            "network": "Credits for a Mbit/s for a period, if network was sold.",
            "disk": "Credits for a MiB/s for a period, if disk was sold.",
            "supply": "The change of the supply of credits in this period, and its reason, if any.",
        },
    ),
    example='60, "default"',
)
async def price_history(services: DaemonServices, caller: Caller, periods: int, market: str) -> Any:
    """Return the prices of a unit in the newest periods."""
    if not 1 <= periods <= MOST_PERIODS:
        raise InvalidRequestError(f"periods: must be from 1 to {MOST_PERIODS} (got {periods})")
    read = partial(services.prices.history, periods, market or None)
    if periods <= _FEW_PERIODS:
        prices = await read()
    else:
        prices = await services.long_reads.run(caller.uid, read)
    return [past_price_row(price) for price in prices]


@method(
    "merkat.quote.bid",
    _ANY_VM,
    Parameter("bid", "struct", f"The bid {_BID}"),
    _SIZE,
    returns=struct("The share and cost of the bid.", _ABOUT, _QUOTED),
    example='vm, {"cpu": 4.0, "memory": 2.0}',
)
async def quote_bid(
    services: DaemonServices,
    caller: Caller,
    vm: int,
    bid: Mapping[str, Any],
    size: Mapping[str, Any],
) -> Any:
    """Return the share and cost of a bid now, with all other bids unchanged."""
    _only("bid", bid, services.world.goods.resources)
    return await _quoted(services, caller, vm, size, bid, {})


@method(
    "merkat.quote.want",
    _ANY_VM,
    Parameter(
        "wanted",
        "struct",
        "The wanted amounts: `cpu` in percent of a core, `memory` in MiB; a missing resource keeps"
        " its bid.",
    ),
    _SIZE,
    Parameter("bid", "struct", "The bids for other resources, as in `merkat.quote.bid`.", {}),
    returns=struct("The smallest bids that get the amounts now, and their cost.", _ABOUT, _QUOTED),
    example='vm, {"cpu": 150.0}',
)
async def quote_want(
    services: DaemonServices,
    caller: Caller,
    vm: int,
    wanted: Mapping[str, Any],
    size: Mapping[str, Any],
    bid: Mapping[str, Any],
) -> Any:
    """Return the bids for wanted amounts, with all other bids unchanged."""
    _only("wanted", wanted, services.world.goods.resources)
    _only("bid", bid, services.world.goods.resources)
    return await _quoted(services, caller, vm, size, bid, wanted)


@method(
    "merkat.bid.info",
    _VM,
    returns=struct(
        "The bid in force.",
        {
            "id": "The VM's id.",
            "name": "The VM's name.",
            "limit_order": _IN_ORDER,
            "resources": "A struct for each resource:",
        },
        {
            "resource": _RESOURCE,
            "bid": "The bid in credits a period.",
            "share": "The share, in percent of a core or MiB.",
            "cost": "The cost of a whole period; left out if no price clears the market.",
        },
    ),
    example="vm",
)
async def bid_info(services: DaemonServices, caller: Caller, vm: int) -> Any:
    """Return the bid, the share and the cost of a VM."""
    return bid_row(await services.bids.read_bid(caller, await services.views.prepared(), vm))


@method(
    "merkat.bid.set",
    _VM,
    Parameter("bid", "struct", f"The new bid {_BID}"),
    returns=struct(
        "The old and the new bid, with their shares and costs now.",
        {
            "id": "The VM's id.",
            "name": "The VM's name.",
            "limit_order": _IN_ORDER,
            "resources": "A struct for each resource:",
        },
        {
            "resource": _RESOURCE,
            "old": "The old bid.",
            "new": "The new bid.",
            "share": "The share with the old bid.",
            "new_share": "The share with the new bid.",
            "cost": "The cost of a period with the old bid.",
            "new_cost": "The cost of a period with the new bid.",
        },
    ),
    example='vm, {"cpu": 4.0}',
    order=SMALL,
)
async def bid_set(services: DaemonServices, caller: Caller, vm: int, bid: Mapping[str, Any]) -> Any:
    """Change a VM's bid from the next period on. The most recent bid applies, from any source."""
    _only("bid", bid, services.world.goods.resources)
    if not bid:
        raise InvalidRequestError("bid: must contain cpu, memory or both")
    view = await services.views.prepared()
    return bid_change_row(await services.bids.set_bid(caller, view, vm, bid))


@method(
    "merkat.vm.explain",
    _VM,
    returns=struct(
        "The explanation of its share.",
        {
            "id": "The VM's id.",
            "name": "The VM's name.",
            "owner": "The id of its owner.",
            "owner_name": "The name of its owner.",
            "state": "Its state in OpenNebula.",
            "host": "Its host, or the target of its migration.",
            "market": "Its market.",
            "period": "The period of the explanation.",
            "at_s": "The time of that period's announcement.",
            "sentence": "Its share and the reason for it, in a sentence.",
            "application": "The id of its application.",
            "standing": "Its application's utility, what it predicts, and what its goal takes, in a"
            " sentence; left out if the strategy of its market knows no utility.",
            "message": "The daemon's message to its owner.",
            "why_here": "The step that placed it there: a struct of `kind`, `state`, `period`,"
            " `at_s` and `reason`.",
            "bid_source": "The source of its bid: template, xmlrpc, controller, default, or the"
            " group of its spending rate.",
            "bid_at_s": "The time of its bid.",
            "limit_order": _IN_ORDER,
            "rate": "Credits per core used for a period, if the market charges for use.",
            "cost": "The cost of a whole period; the most if the market charges for use.",
            "balance": "The balance of its payer: its application, or its owner; only for its owner"
            " and administrators.",
            "queue": "For a VM that waits: a struct of `vms` (the number of VMs that are placed"
            " before it), `waiting` (the number of all that wait in its market), `bids` and `size`"
            " (their sums by resource), and `names` (for administrators only).",
            "resources": "A struct for each resource:",
        },
        {
            "resource": _RESOURCE,
            "bid": "Its bid.",
            "bids": "The sum of all bids on its host.",
            "bidders": "The number of VMs that bid there.",
            "capacity": "The capacity that its host divides.",
            "by_bid": "The part that its bid gets by itself: bid / bids x capacity.",
            "others": "The part that other VMs leave unused, or take for their floors.",
            "floor": "The part that its floor adds.",
            "cap": "The part that its cap removes.",
            "rest": "The part that the strategy or an overfull host changes.",
            "share": "Its share: by_bid + others + floor + cap + rest.",
            "used": "Its use since the previous period, as reported by its host; left out if"
            " unknown.",
            "used_lately": "Its average use over a dozen periods; left out if unknown.",
            "least": "Its floor.",
            "most": "Its cap.",
            "first": "Its share if its market were a single host.",
            "error": "Its allocation error: the distance of `share` from `first`, as a part of"
            " `first`.",
            "limited_by": "The limit of its share, as a word.",
            "bid_for_all": "The bid that would get its cap; left out if no bid would.",
            "price": "The price of a unit; left out if no price clears the market.",
            "cost": "The cost of a whole period in credits.",
            "why_not_more": "The limit of its share, as a text.",
        },
    ),
    example="vm",
)
async def vm_explain(services: DaemonServices, caller: Caller, vm: int) -> Any:
    """Explain a VM's share and placement, and the bid for a larger share."""
    view = await services.views.prepared()
    turn = partial(services.long_reads.run, caller.uid)
    return explanation_row(await services.explanations.explain(caller, view.now, vm, turn))


async def _quoted(
    services: DaemonServices,
    caller: Caller,
    vm: int,
    size: Mapping[str, Any],
    bids: Amounts,
    wanted: Amounts,
) -> Any:
    if size:
        sizes = [
            f"{what}{name}" for name in services.world.goods.resources for what in (MOST, LEAST)
        ]
        _only("size", size, (*sizes, "market"))
        if vm != NEW_VM:
            raise InvalidRequestError("size: must be empty for an existing VM")
    view = await services.views.prepared()
    subject = planned_vm_of(size) if vm == NEW_VM else ExistingVm(vm)
    return quote_row(await services.quotes.quote(caller, view, subject, bids, wanted))


def _only(what: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise InvalidRequestError(
                f"{what}: unknown member {quoted_value(name)}; known: {', '.join(known)}"
            )
