"""The explanation of a VM's share, as data and as a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from merkatd.base.quantities import finite
from merkatd.cluster import RESTING, VmState
from merkatd.database.scheduler import bid_store, journal
from merkatd.database.scheduler.bid_store import Bid
from merkatd.database.scheduler.step_store import StepState, StoredStep
from merkatd.market.explanation import Explanation, LimitedBy, Part, explain
from merkatd.scheduler.context import PeriodContext
from merkatd.service.base.payer_balances import purses
from merkatd.service.base.period_view import PeriodView

UNITS = {
    "cpu": "% of CPU",
    "memory": "MiB of memory",
    "network": "Mbit/s of network",
    "disk": "MiB/s of disk",
}
"""The units and names of resources in a sentence; other resources appear by their key."""
_PLAIN = {
    LimitedBy.CAP: "it is all that the VM can use",
    LimitedBy.RESERVE: "its bid pays for no more at the reserve price, below which nothing is sold",
    LimitedBy.NO_HOST: "it has no host",
    LimitedBy.NO_BID: "it bids nothing for this resource, so it gets only its floor",
    LimitedBy.OVERFULL: "the floors of the VMs there exceed the host, so all are scaled down alike",
}


def sentence(
    who: str,
    where: str | None,
    state: VmState,
    words: str,
    explanation: Explanation | None,
    message: str | None,
    trouble: str | None = None,
) -> str:
    """Return the VM's share and the reason for it; `who` names the VM, `where` its host.

    `trouble` is the state and error of a host that OpenNebula does not reach.
    """
    idle = _idle(who, where, state, words, trouble)
    if idle is not None:
        return idle
    if explanation is None:
        return f"{who} belongs to no market: it keeps the size of its template, free of charge."
    if where is None:
        return f"{who} waits for a host: {message or 'the next period looks for one'}."
    if state in RESTING:
        kept = " and ".join(amount(p.resource, p.share) for p in explanation.parts if p.share > 0)
        return (
            f"{who} is {words}: on {where} it keeps {kept or 'nothing'},"
            " its floor, and pays the reserve price for that; it bids nothing."
        )
    short = [p for p in explanation.parts if p.limited_by is not LimitedBy.CAP]
    if not short:
        all_ = " and ".join(amount(p.resource, p.share) for p in explanation.parts)
        return f"{who} gets all that it can use on {where}: {all_}."
    worst = max(short, key=_lack)
    return f"{who} gets {_got(worst)} on {where}: {why_not_more(worst)}{_would_help(worst)}."


def _idle(
    who: str, where: str | None, state: VmState, words: str, trouble: str | None
) -> str | None:
    """Return the sentence for a VM outside of the market now; None for a VM in the market."""
    if state is VmState.ABSENT and where is None:
        return f"{who} is {words}: it holds nothing, bids nothing and pays nothing."
    if state is VmState.ABSENT:
        return (
            f"{who} is {words} on {where}: it bids nothing. While the daemon starts it again it"
            " keeps memory there at the reserve price; while it waits for an administrator it"
            f" keeps nothing and pays nothing.{_trouble(where, trouble)}"
        )
    if trouble is not None:
        return (
            f"{who} is {words}. The market allocates nothing to it until its host is back."
            f"{_trouble(where, trouble)}"
        )
    return None


def _trouble(where: str | None, trouble: str | None) -> str:
    return "" if trouble is None else f" Host {where} is in state {trouble}."


def why_not_more(part: Part) -> str:
    """Return the reason why this share is not larger."""
    said = _PLAIN.get(part.limited_by)
    if said is not None:
        return said
    if part.limited_by is LimitedBy.FLOOR:
        return f"this is its floor, and its bid of {_n(part.bid)} alone would get less"
    if part.bidders == 1:
        return "the floors of the other VMs there leave no more"
    return (
        f"its bid of {_n(part.bid)} is {100 * part.bid / part.bids:.3g} % of the"
        f" {_n(part.bids)} that {part.bidders} VMs bid there for {amount('', part.capacity)}"
    )


def amount(resource: str, value: float) -> str:
    """Return a number with its unit: 150 % of CPU, 2,048 MiB of memory."""
    return f"{value:,.1f}".removesuffix(".0") + f" {UNITS.get(resource, resource)}".rstrip()


def _got(part: Part) -> str:
    return f"{_n(part.share)} of the {amount(part.resource, part.most)} that it can use"


def _lack(part: Part) -> float:
    return (part.most - part.share) / part.most if part.most > 0 else 0.0


def _would_help(part: Part) -> str:
    """Return a clause with the bid for the whole cap, if there is such a bid."""
    if part.limited_by is LimitedBy.OVERFULL:
        return ""
    if part.bid_for_all is None:
        return "; no bid would get all of it on this host"
    if part.bid_for_all <= part.bid:
        return ""
    return f"; a bid of {_n(_rounded_up(part.bid_for_all))} would get all of it"


def _rounded_up(value: float) -> float:
    """Return the value rounded up to about four digits, so that the stated bid is enough."""
    return float(f"{value * 1.0005:.4g}")


def _n(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0") if value >= 100 else f"{value:.4g}"


_PLACING = ("deploy", "migrate")


def explanation_row(
    now: PeriodView,
    row: int,
    newest_bid: Bid | None,
    steps: Sequence[StoredStep],
    balance: float | None,
) -> dict[str, Any]:
    """Return all explanations of the VM in this row.

    `newest_bid` is its most recent bid, `steps` are its steps, newest first, and `balance` is the
    balance of its payer.
    """
    table = now.snapshot.vms
    vm = int(table.id[row])
    explanation = explain(now.snapshot, now.decision, row)
    name = table.name[row]
    who = f"VM {vm} ({name})" if name else f"VM {vm}"
    owner = int(table.owner[row])
    return {
        "id": vm,
        "name": name,
        "owner": None if owner < 0 else owner,
        "owner_name": now.owner_names.get(owner),
        "state": now.states[row],
        "host": now.host_name(row),
        "market": now.market_name(int(table.market[row])),
        "period": now.snapshot.period,
        "at_s": now.at_s,
        "sentence": sentence(
            who,
            now.host_name(row),
            VmState(int(table.state[row])),
            now.states[row],
            explanation,
            now.messages.get(vm),
            now.trouble.get(now.host_name(row) or ""),
        ),
        "message": now.messages.get(vm),
        "why_here": _why_here(steps),
        "bid_source": _bid_source(now, vm, newest_bid),
        "bid_at_s": None if newest_bid is None else newest_bid.at_s,
        "rate": finite(now.rate[row]),
        "cost": float(now.cost[row].sum()),
        "balance": balance,
        "resources": [] if explanation is None else _resources(now, row, explanation),
    }


def _bid_source(now: PeriodView, vm: int, newest_bid: Bid | None) -> str:
    """Return the source of the bid in force: the VM's group, if it has any, or the latest bid's."""
    if vm in now.rates:
        return f"group {now.rates[vm].group}"
    return "default" if newest_bid is None else str(newest_bid.source)


def _resources(now: PeriodView, row: int, explanation: Explanation) -> list[dict[str, Any]]:
    market = int(now.snapshot.vms.market[row])
    nowhere = now.host_name(row) is None
    return [
        _numbers(asdict(part))
        | _used(now, row, column)
        | {
            "price": finite(now.decision.prices[market, column]),
            "cost": finite(now.cost[row, column]),
            "why_not_more": "it has no host" if nowhere else why_not_more(part),
        }
        for column, part in enumerate(explanation.parts)
    ]


def _used(now: PeriodView, row: int, column: int) -> dict[str, float | None]:
    """Return the last observed use of the resource, and the average of all known samples."""
    history = now.snapshot.history
    if history is None:
        return {"used": None, "used_lately": None}
    samples = history.vms[:, row, column]
    known = samples[~np.isnan(samples)]
    return {
        "used": finite(float(samples[-1])),
        "used_lately": float(known.mean()) if len(known) else None,
    }


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for JSON: None for infinity and NaN."""
    return {
        name: finite(value) if isinstance(value, float) else value for name, value in values.items()
    }


def _why_here(steps: Sequence[StoredStep]) -> dict[str, Any] | None:
    """Return the newest step that placed the VM on its host, or is about to."""
    for stored in steps:
        if stored.step.kind in _PLACING and stored.state not in _FAILED:
            return {
                "kind": stored.step.kind,
                "state": str(stored.state),
                "period": stored.step.period,
                "at_s": stored.planned_s,
                "reason": stored.step.reason,
            }
    return None


_FAILED = (StepState.REFUSED, StepState.EXPIRED)


async def explanation(world: PeriodContext, now: PeriodView, row: int) -> dict[str, Any]:
    """Return all explanations of the VM in this row."""
    vms = now.snapshot.vms
    vm, owner, application = int(vms.id[row]), int(vms.owner[row]), int(vms.application[row])
    newest_bid, steps, balance = await world.database.read(
        lambda connection: (
            bid_store.newest_bids(connection, [vm]).get(vm),
            journal.history(connection, vm),
            purses(connection).credits(owner, application),
        )
    )
    return await world.executor.run(partial(explanation_row, now, row, newest_bid, steps, balance))
