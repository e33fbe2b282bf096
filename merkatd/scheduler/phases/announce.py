"""The announcement of a period: prices for listeners, messages for owners, and the outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from twisted.logger import Logger

from merkatd.base.hourly_prices import price_text
from merkatd.cluster import ACTIVE, HostState
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.orders import with_order_terms
from merkatd.database.scheduler.order_store import Mode
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.snapshot_builder import movable
from merkatd.scheduler.phases.act import Acted
from merkatd.scheduler.phases.decide import PeriodDecision
from merkatd.scheduler.terms.affordability import messages_after_reasons


class NotActingError(Exception):
    """A refusal because this daemon does not act at present; the message says why."""


class PeriodOutcome(StrEnum):
    """The outcome of a period that was due."""

    DONE = "done"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    """OpenNebula did not answer."""
    CUT_SHORT = "cut_short"
    """Another daemon took over, or this one ended."""
    NOT_BEGUN = "not_begun"
    """The daemon is paused, or another daemon acts."""


Counter = Callable[[PeriodOutcome, float], None]
"""A function that receives each outcome and its duration in seconds."""


_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class Announcement:
    """The public data of a period."""

    period: int
    at_s: float
    prices: Mapping[str, Mapping[str, float]]
    """By market and resource."""
    seen: Observed
    decided: PeriodDecision
    acted: Acted
    mode: Mode = Mode.ON


_BY_RECORD = (
    "charged and limited by OpenNebula's own record of it. Its own texts are read"
    " at growing intervals, of up to an hour"
)


def _prices_text(prices: Mapping[str, Mapping[str, float]], interval_s: float) -> str:
    """Return the prices of all markets for people."""
    return "; ".join(
        f"market {market}: "
        + ", ".join(
            f"{name} {price_text(price, name, interval_s)}" for name, price in by_name.items()
        )
        for market, by_name in prices.items()
    )


def announcement_of(
    context: PeriodContext,
    observed: Observed,
    decided: PeriodDecision,
    acted: Acted,
    mode: Mode = Mode.ON,
) -> Announcement:
    """Return the announcement of a finished period, and log a summary.

    It has the cloud as the markets saw it, with the terms of VMs in limit orders.
    """
    terms = decided.decision.order_terms
    observed = replace(observed, snapshot=with_order_terms(observed.snapshot, terms))
    prices = {
        market.name: dict(zip(observed.snapshot.resources, row.tolist(), strict=True))
        for market, row in zip(context.markets, decided.decision.prices, strict=True)
    }
    _log.info(
        "{mode}Period {period}: {vms} VMs on {hosts} hosts, {sent} steps sent, {refused} refused,"
        " {postponed} postponed; {prices}",
        mode="" if mode is Mode.ON else f"Mode {mode}: ",
        period=observed.period,
        vms=len(observed.snapshot.vms),
        hosts=len(observed.snapshot.hosts),
        sent=acted.sent,
        refused=acted.refused,
        postponed=acted.postponed,
        prices=_prices_text(prices, context.rhythm.interval_s),
    )
    return Announcement(observed.period, context.now(), prices, observed, decided, acted, mode)


def reasons_of(decided: PeriodDecision) -> dict[int, str]:
    """Return why VMs wait, or get less than they want, by id."""
    return {**decided.decision.reasons, **decided.limits.postponed}


def messages(observed: Observed, decided: PeriodDecision) -> dict[int, str]:
    """Return the message for the owner of each VM that needs one, by id."""
    reasons = decided.decision.reasons
    messages = {
        **_leaving(observed),
        **reasons,
        **messages_after_reasons(reasons, decided.messages),
    }
    messages.update(decided.limits.postponed)
    rules = observed.observation.constraints
    if rules is not None:
        messages.update(rules.remarks)
    for vm, wish in observed.wishes.items():
        if wish.problems:
            messages[vm] = "; ".join(wish.problems)
    for vm, why in observed.observation.by_record.items():
        messages[vm] = f"{why}: this VM is {_BY_RECORD}"
    return messages


def _leaving(observed: Observed) -> dict[int, str]:
    """Return the messages to the owners of VMs on hosts that an administrator empties."""
    seen = observed.observation
    drained = seen.host_state == int(HostState.DRAINED)
    if not drained.any():
        return {}
    names = {int(seen.host_id[row]): seen.host_name[row] for row in np.flatnonzero(drained)}
    there = is_one_of(seen.vm_host, names.keys()) & is_one_of(seen.vm_state, ACTIVE)
    may = movable(seen)
    return {
        int(seen.vm_id[row]): f"An administrator empties host {names[int(seen.vm_host[row])]}:"
        f" {_MOVES if may[row] else _STAYS}"
        for row in np.flatnonzero(there)
    }


_MOVES = "the VM is migrated to another host"
_STAYS = (
    "the VM can't be migrated while it runs. Stop it before the administrator does, and start it"
    " again: it starts on another host"
)


def due(observed: Observed, decided: PeriodDecision, *, withdraw: bool) -> dict[int, str]:
    """Return the text that each VM should show, by id; "" removes an outdated message."""
    gone = dict.fromkeys(observed.observation.messages, "") if withdraw else {}
    return gone | messages(observed, decided)
