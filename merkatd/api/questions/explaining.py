"""The question `explain`: one VM's bid, share, price, place and reasons, as JSON has it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from merkatd.api.questions.present import Present
from merkatd.api.questions.sentences import sentence, why_not_more
from merkatd.api.questions.words import finite
from merkatd.cluster import VmState
from merkatd.database.scheduler.bid_store import Bid
from merkatd.database.scheduler.step_store import StepState, StoredStep
from merkatd.market.explanation import Explanation, explain

_PLACING = ("deploy", "migrate")


def explained(
    now: Present,
    row: int,
    word: Bid | None,
    steps: Sequence[StoredStep],
    balance: float | None,
) -> dict[str, Any]:
    """All that can be said of the VM in this row.

    `word` is the newest word on its bid, `steps` what was done to it, newest first, and
    `balance` what is left to pay for it.
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
        "bid_source": _bid_source(now, vm, word),
        "bid_at_s": None if word is None else word.at_s,
        "rate": finite(now.rate[row]),
        "cost": float(now.cost[row].sum()),
        "balance": balance,
        "resources": [] if explanation is None else _resources(now, row, explanation),
    }


def _bid_source(now: Present, vm: int, word: Bid | None) -> str:
    """What a VM of a group bids is its part of the group's spending rate, whatever else is said."""
    if vm in now.rates:
        return f"group {now.rates[vm].group}"
    return "default" if word is None else str(word.source)


def _resources(now: Present, row: int, explanation: Explanation) -> list[dict[str, Any]]:
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


def _used(now: Present, row: int, column: int) -> dict[str, float | None]:
    """What it really used of the resource, at the last look and on average over those known."""
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
    """Plain JSON: no infinity, no NaN."""
    return {
        name: finite(value) if isinstance(value, float) else value for name, value in values.items()
    }


def _why_here(steps: Sequence[StoredStep]) -> dict[str, Any] | None:
    """The newest step that brought the VM where it is, or is about to."""
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
