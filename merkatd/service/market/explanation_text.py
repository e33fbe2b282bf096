"""The sentences that explain a VM's share."""

from merkatd.base.quantities import resource_amount
from merkatd.cluster import RESTING, VmState
from merkatd.cluster.orders import LimitOrder, OrderOutcome
from merkatd.market.explanation import Explanation, LimitedBy, Part

_PLAIN = {
    LimitedBy.CAP: "it is all that the VM can use",
    LimitedBy.RESERVE: "its bid pays for no more at the reserve price, below which nothing is sold",
    LimitedBy.NO_HOST: "it has no host",
    LimitedBy.NO_BID: "it bids nothing for this resource, so it gets only its floor",
    LimitedBy.STRATEGY: "the strategy alone divides the hosts of its market, bids have no effect",
    LimitedBy.OVERFULL: "the floors of the VMs there exceed the host, so all are scaled down alike",
}


_LEAST_LACK = 1e-3
"""The part of its size from which on a VM counts as smaller."""


def sentence(
    who: str,
    where: str | None,
    state: VmState,
    words: str,
    explanation: Explanation | None,
    reason: str | None,
    trouble: str | None = None,
) -> str:
    """Return the VM's share and the reason for it; `who` names the VM, `where` its host.

    `reason` is why it waits; `trouble` is the state and error of a host that OpenNebula does not
    reach.
    """
    idle = _idle(who, where, state, words, trouble)
    if idle is not None:
        return idle
    if explanation is None:
        return f"{who} belongs to no market: it keeps the size of its template, free of charge."
    if where is None:
        return f"{who} waits for a host: {reason or 'the next period looks for one'}."
    if state in RESTING:
        kept = " and ".join(
            resource_amount(p.resource, p.share) for p in explanation.parts if p.share > 0
        )
        return (
            f"{who} is {words}: on {where} it keeps {kept or 'nothing'},"
            " its floor, and pays the reserve price for that; it bids nothing."
        )
    short = [p for p in explanation.parts if p.limited_by is not LimitedBy.CAP]
    if not short:
        all_ = " and ".join(resource_amount(p.resource, p.share) for p in explanation.parts)
        return f"{who} gets all that it can use on {where}: {all_}."
    worst = max(short, key=_lack)
    return f"{who} gets {_got(worst)} on {where}: {why_not_more(worst)}{_would_help(worst)}."


def ordered_sentence(
    who: str,
    where: str | None,
    words: str,
    order: LimitOrder,
    outcome: OrderOutcome,
    explanation: Explanation | None,
) -> str:
    """Return the sentence for a VM in a limit order, with the order's outcome in the period."""
    number = len(order.vms)
    together = f" together with {number - 1} other VM{'' if number == 2 else 's'}" * (number > 1)
    if not outcome.runs:
        leaves = "is being suspended" if words == "RUNNING" else "waits"
        return f"{who} {leaves}{together}, and costs nothing: {outcome.why}."
    if where is None or outcome.why:
        return f"{who} starts{together}: {outcome.why or f'limit order {order.id} can pay for it'}."
    parts = () if explanation is None else explanation.parts
    size = ", ".join(resource_amount(part.resource, part.share) for part in parts)
    whole = all(_lack(part) < _LEAST_LACK for part in parts)
    full = "at full size" if whole else "at less than full size until other VMs have left"
    return (
        f"{who} runs{together} {full} on {where} ({size}): limit order {order.id} costs"
        f" {_n(outcome.cost or 0.0)} credits a period now, and may cost {_n(order.limit)}."
    )


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
    text = _PLAIN.get(part.limited_by)
    if text is not None:
        return text
    if part.limited_by is LimitedBy.FLOOR:
        return f"this is its floor, and its bid of {_n(part.bid)} alone would get less"
    if part.bidders == 1:
        return "the floors of the other VMs there leave no more"
    capacity = resource_amount("", part.capacity)
    return (
        f"its bid of {_n(part.bid)} is {100 * part.bid / part.bids:.3g} % of the"
        f" {_n(part.bids)} that {part.bidders} VMs bid there for {capacity}"
    )


def _got(part: Part) -> str:
    return f"{_n(part.share)} of the {resource_amount(part.resource, part.most)} that it can use"


def _lack(part: Part) -> float:
    return (part.most - part.share) / part.most if part.most > 0 else 0.0


def _would_help(part: Part) -> str:
    """Return a clause with the bid for the whole cap, if there is such a bid."""
    if part.limited_by in {LimitedBy.OVERFULL, LimitedBy.STRATEGY}:
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
