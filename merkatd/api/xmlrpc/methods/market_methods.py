"""The methods about prices, quotes, bids, and why a VM gets what it gets."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from merkatd.api.xmlrpc.codec import Encoded
from merkatd.api.xmlrpc.method_table import Parameter, method, struct, structs, written_prices
from merkatd.base.quantities import shown
from merkatd.service.base.errors import QuestionError
from merkatd.service.base.identity import MANAGE, USE, Caller, need_vm, no_vm
from merkatd.service.base.order_limits import SMALL
from merkatd.service.base.period_view import QuotedView
from merkatd.service.market.quotes import SIZE_WORDS, new_subject, quote_row, vm_subject
from merkatd.service.services import DaemonServices

MOST_PERIODS = 1000
"""Of prices that one call asks for."""
_FEW_PERIODS = 120
"""So many are read at once, as pages do; more take a turn among the long reads."""
NEW_VM = -1

_VM = Parameter("vm", "int", "The VM's id.")
_ANY_VM = Parameter("vm", "int", "The VM's id; -1 for a VM that there is not yet.")
_SIZE = Parameter(
    "size",
    "struct",
    "Of a VM that there is not yet: `most_cpu`, `most_memory` (what it can use, all of a host"
    " unless said), `least_cpu`, `least_memory` (what it can't live without, nothing unless"
    " said), the same for `network` and `disk` where they are traded, and `market` (the first"
    " unless said).",
    {},
)
_BID = (
    "by resource (`cpu`, `memory`; `network`, `disk` where they are traded), credits a period; a"
    " resource that is left out keeps its bid."
)
_RESOURCE = "`cpu` or `memory`; `network` or `disk` where they are traded."
_ABOUT = {
    "id": "The VM, if there is one,",
    "name": "and its name.",
    "host": "Where it is, or would be tried first; left out where it fits on no host: then the"
    " shares are what it would get if its market were one host.",
    "market": "Its market.",
    "period": "The period that this was worked out from.",
    "rate": "Credits for each core that it uses for a period, where use is charged.",
    "cost": "Credits that a whole period costs, of all resources, at most where use is charged;"
    " left out where one of them can't be had.",
    "resources": "By resource, a struct:",
}
_QUOTED = {
    "resource": "`cpu` (in percent of a core) or `memory` (in MiB); `network` (in Mbit/s each way)"
    " or `disk` (in MiB/s) where they are traded.",
    "wanted": "What was asked for, if an amount was.",
    "bid": "Credits a period; left out where no bid gets what was wanted.",
    "share": "What that bid gets; where no bid does, the most that could be had.",
    "most": "All that the VM can use.",
    "price": "Of a unit, once this bid counts; left out where no price clears.",
    "cost": "Credits that a whole period costs.",
}


@method(
    "merkat.price.info",
    Parameter("market", "string", "Of this market alone; of all unless said.", ""),
    returns=structs(
        "The present price of each resource.",
        {
            "market": "The market.",
            "resource": _RESOURCE,
            "price": "Credits for a percent of a core, a MiB, a Mbit/s or a MiB/s, for one period;"
            " left out where no price clears.",
            "period": "The number of the period,",
            "at_s": "and when it was announced, in seconds since the epoch.",
        },
    ),
    example='"default"',
)
async def price_info(house: DaemonServices, _caller: Caller, market: str) -> Encoded:
    """What a unit of each resource costs now."""
    return written_prices(house).of(house.preparing.latest, market)


@method(
    "merkat.price.history",
    Parameter("periods", "int", f"Of so many periods, 1 to {MOST_PERIODS}.", 60),
    Parameter("market", "string", "Of this market alone; of all unless said.", ""),
    returns=structs(
        "A struct a period and market, the oldest first.",
        {
            "period": "The number of the period,",
            "at_s": "and when it began.",
            "market": "The market.",
            "cpu": "Credits for a percent of a core for one period,",
            "memory": "and for a MiB; left out where no price cleared.",
            "network": "The same for a Mbit/s,",
            "disk": "and for a MiB/s, where they were traded.",
            "supply": "How the supply of credits was changed in this period, and why, if it was.",
        },
    ),
    example='60, "default"',
)
async def price_history(house: DaemonServices, caller: Caller, periods: int, market: str) -> Any:
    """What a unit cost in the newest periods."""
    if not 1 <= periods <= MOST_PERIODS:
        raise QuestionError(f"periods: {periods}: 1 to {MOST_PERIODS} are right")
    words = {"periods": periods, "market": market or None}
    read = partial(house.questions.answer, "price_history", words)
    if periods <= _FEW_PERIODS:
        return await read()
    return await house.long_reads.run(caller.identity.uid, read)


@method(
    "merkat.quote.bid",
    _ANY_VM,
    Parameter("bid", "struct", f"What it would bid, {_BID}"),
    _SIZE,
    returns=struct("What that gets and costs.", _ABOUT, _QUOTED),
    example='vm, {"cpu": 4.0, "memory": 2.0}',
)
async def quote_bid(
    house: DaemonServices, caller: Caller, vm: int, bid: Mapping[str, Any], size: Mapping[str, Any]
) -> Any:
    """What a bid would get now, and cost, while all others stay as they are."""
    _only("bid", bid, house.world.goods.resources)
    return await _quoted(house, caller, vm, size, bid)


@method(
    "merkat.quote.want",
    _ANY_VM,
    Parameter(
        "wanted",
        "struct",
        "What it should get: `cpu` in percent of a core, `memory` in MiB; a resource that is left"
        " out keeps its bid.",
    ),
    _SIZE,
    returns=struct("The least bids that get it now, and what they cost.", _ABOUT, _QUOTED),
    example='vm, {"cpu": 150.0}',
)
async def quote_want(
    house: DaemonServices,
    caller: Caller,
    vm: int,
    wanted: Mapping[str, Any],
    size: Mapping[str, Any],
) -> Any:
    """What it would take to get this, while all others stay as they are."""
    _only("wanted", wanted, house.world.goods.resources)
    return await _quoted(house, caller, vm, size, {f"want_{name}": wanted[name] for name in wanted})


@method(
    "merkat.bid.info",
    _VM,
    returns=struct(
        "The bid in force.",
        {"id": "The VM,", "name": "and its name.", "resources": "By resource, a struct:"},
        {
            "resource": _RESOURCE,
            "bid": "Credits a period.",
            "share": "What it gets, in percent of a core or MiB.",
            "cost": "Credits that a whole period costs; left out where no price clears.",
        },
    ),
    example="vm",
)
async def bid_info(house: DaemonServices, caller: Caller, vm: int) -> Any:
    """What a VM bids, gets and pays."""
    await _row(house, caller, vm, USE)
    answer = await house.questions.answer("bid", {"vm": str(vm)})
    rows = [
        {
            "resource": row["resource"],
            "bid": row["old"],
            "share": row["share"],
            "cost": row["cost"],
        }
        for row in answer["resources"]
    ]
    return {"id": vm, "name": answer["name"], "resources": rows}


@method(
    "merkat.bid.set",
    _VM,
    Parameter("bid", "struct", f"What it bids from now on, {_BID}"),
    returns=struct(
        "The old and the new bid, and what each gets and costs now.",
        {"id": "The VM,", "name": "and its name.", "resources": "By resource, a struct:"},
        {
            "resource": _RESOURCE,
            "old": "The bid until now,",
            "new": "and from now on.",
            "share": "What the old one gets,",
            "new_share": "and the new one.",
            "cost": "What a period costs with the old one,",
            "new_cost": "and with the new one.",
        },
    ),
    example='vm, {"cpu": 4.0}',
    order=SMALL,
)
async def bid_set(house: DaemonServices, caller: Caller, vm: int, bid: Mapping[str, Any]) -> Any:
    """Change what a VM bids, from the next period on. The newest word wins, whoever says it."""
    _only("bid", bid, house.world.goods.resources)
    if not bid:
        raise QuestionError("bid: cpu, memory or both are right")
    await _row(house, caller, vm, MANAGE)
    answer = await house.questions.answer("bid", {"vm": str(vm), **bid})
    return {"id": vm, "name": answer["name"], "resources": answer["resources"]}


@method(
    "merkat.vm.explain",
    _VM,
    returns=struct(
        "All that can be said of it.",
        {
            "id": "The VM,",
            "name": "its name,",
            "owner": "and the user whose it is,",
            "owner_name": "by name.",
            "state": "Its state in OpenNebula's words.",
            "host": "Where it is or is being taken to.",
            "market": "Its market.",
            "period": "The period that this was worked out from,",
            "at_s": "and when it was announced.",
            "sentence": "What it gets and why not more, in a sentence.",
            "message": "What its owner is told.",
            "why_here": "The step that brought it there: a struct of `kind`, `state`, `period`,"
            " `at_s` and `reason`.",
            "bid_source": "Where its bid came from: template, xmlrpc, controller, default, or the"
            " group whose spending rate it has a part of,",
            "bid_at_s": "and when.",
            "rate": "Credits for each core that it uses for a period, where use is charged.",
            "cost": "Credits that a whole period costs, at most where use is charged.",
            "balance": "Credits that are left to pay with: its application's, or its owner's.",
            "resources": "By resource, a struct:",
        },
        {
            "resource": _RESOURCE,
            "bid": "Its bid.",
            "bids": "All bids on its host,",
            "bidders": "and of how many VMs.",
            "capacity": "What there is to divide on its host.",
            "by_bid": "bid / bids x capacity.",
            "others": "What others leave over, or need to live.",
            "floor": "What its floor adds.",
            "cap": "What its cap cuts off.",
            "rest": "What the strategy or an overfull host changes.",
            "share": "by_bid + others + floor + cap + rest.",
            "used": "What it really used since the period before, as its host saw it; left out"
            " where the guest or the host does not say,",
            "used_lately": "and on average over a dozen periods.",
            "least": "Its floor,",
            "most": "and its cap.",
            "first": "Its share if its market were one host.",
            "error": "|first - share| / first.",
            "limited_by": "What keeps it from more.",
            "bid_for_all": "The bid that would get its cap; left out where none would.",
            "price": "Of a unit; left out where no price clears.",
            "cost": "Credits that a whole period costs.",
            "why_not_more": "What keeps it from more, in words.",
        },
    ),
    example="vm",
)
async def vm_explain(house: DaemonServices, caller: Caller, vm: int) -> Any:
    """Why a VM gets what it gets, is where it is, and what would get it more."""
    await _row(house, caller, vm, USE)
    explain = partial(house.questions.answer, "explain", {"vm": str(vm)})
    return await house.long_reads.run(caller.identity.uid, explain)


async def _quoted(
    house: DaemonServices,
    caller: Caller,
    vm: int,
    size: Mapping[str, Any],
    words: Mapping[str, Any],
) -> Any:
    sizes = [f"{what}_{name}" for name in house.world.goods.resources for what in SIZE_WORDS]
    _only("size", size, (*sizes, "market"))
    if vm == NEW_VM:
        prepared = await house.preparing.prepared()
        return quote_row(new_subject(prepared, prepared.markets, size), words)
    if size:
        raise QuestionError("size: nothing is right for a VM that there is already")
    prepared, row = await _row(house, caller, vm, USE)
    return quote_row(vm_subject(prepared, row), words)


async def _row(
    house: DaemonServices, caller: Caller, vm: int, right: str
) -> tuple[QuotedView, int]:
    """The VM's row, once it is settled that the caller has this right to it. Raises Refusal."""
    prepared = await house.preparing.prepared()
    snapshot = prepared.now.snapshot
    try:
        row = snapshot.vm_row(vm)
    except KeyError:
        raise no_vm(vm) from None
    owner = int(snapshot.vms.owner[row])
    await need_vm(caller.identity, house.logins, caller.session, vm, owner, right)
    return prepared, row


def _only(what: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise QuestionError(f"{what}: {shown(name)}: only {', '.join(known)} are right")
