"""Answers about prices, quotes, bids and explanations as plain dicts."""

from typing import Any

from merkatd.service.market.bids import BidOutcome
from merkatd.service.market.explanations import ExplainedVm
from merkatd.service.market.prices import PastPriceRow, PriceTrend
from merkatd.service.market.quotes import QuotedVm

Row = dict[str, Any]


def flat_row(value: Any) -> Row:
    """Return the fields of a dataclass with slots, in their order; their values stay."""
    return {name: getattr(value, name) for name in value.__slots__}


def price_trend_row(trend: PriceTrend) -> Row:
    """Return a present price with its trend."""
    now, known = trend.now, trend.known
    return {
        "market": now.market,
        "resource": now.resource,
        "price": now.price,
        "before": trend.before,
        "least": min(known, default=None),
        "most": max(known, default=None),
        "trend": trend.trend,
        "period": now.period,
        "at_s": now.at_s,
    }


def past_price_row(past: PastPriceRow) -> Row:
    """Return the prices of a market in a period; only a period that changed the supply says so."""
    row = {"period": past.period, "at_s": past.at_s, "market": past.market, **past.prices}
    return row if past.supply is None else {**row, "supply": past.supply}


def quote_row(quoted: QuotedVm) -> Row:
    """Return a quote; a planned VM has no id and no name."""
    about = {} if quoted.vm is None else {"id": quoted.vm, "name": quoted.name}
    where = {"host": quoted.host, "market": quoted.market, "period": quoted.period}
    charged = {} if quoted.rate is None else {"rate": quoted.rate}
    rows = [flat_row(resource) for resource in quoted.resources]
    return {**about, **where, **charged, "cost": quoted.cost, "resources": rows}


def bid_change_row(outcome: BidOutcome) -> Row:
    """Return the old and the new bid of a VM."""
    rows = [flat_row(resource) for resource in outcome.resources]
    return {**_who(outcome), "resources": rows}


def bid_row(outcome: BidOutcome) -> Row:
    """Return the bid in force."""
    rows = [
        {
            "resource": resource.resource,
            "bid": resource.old,
            "share": resource.share,
            "cost": resource.cost,
        }
        for resource in outcome.resources
    ]
    return {**_who(outcome), "resources": rows}


def _who(outcome: BidOutcome) -> Row:
    return {"id": outcome.vm, "name": outcome.name, "limit_order": outcome.limit_order}


def explanation_row(explained: ExplainedVm) -> Row:
    """Return the explanations of a VM."""
    row = flat_row(explained)
    why = explained.why_here
    row["why_here"] = None if why is None else flat_row(why)
    row["queue"] = None if explained.queue is None else flat_row(explained.queue)
    row["resources"] = [flat_row(resource) for resource in explained.resources]
    return {"id": row.pop("vm"), **row}
