"""The means of VMs that are off: the amounts they can pay for if they are resumed.

A VM that is off has no share. If its owner resumes it before the next period, it is limited to the
amounts that its bid buys, as far as its payer had free credits at the decision. Its limits and its
charge come from the same column. A VM of a payer without credits, or of an owner in debt, gets
nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd import ledger
from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import is_one_of
from merkatd.currency import MICRO
from merkatd.database.ledger import account_store
from merkatd.database.scheduler import price_store
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.scheduler.charging.owed_amounts import costs, in_a_market
from merkatd.scheduler.charging.used_cpu import CPU, is_charged_by_use
from merkatd.scheduler.context import PeriodContext


@dataclass(frozen=True, slots=True)
class MeansAtRest:
    """The amounts that a VM can have if its owner resumes it."""

    units: float
    """The CPU that its bid buys, in percent of a core."""
    weighs: float
    """The cost of that CPU in a period, in credits."""
    amounts: tuple[float, ...]
    """The amounts that its bids buy, by resource."""


def with_means(
    connection: sa.Connection, context: PeriodContext, arrays: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return a period's columns with affordable amounts in place of the amounts that bids buy.

    `paid_part`, [vms], is the affordable part of the bid of each VM that is off; 1 for all others.
    The highest cost of the running VMs is reserved first. All VMs of a payer that are off divide
    the rest.
    """
    if "resumed" not in arrays:
        return arrays
    rows = np.flatnonzero(arrays["rests"] & in_a_market(arrays, context.markets))
    payers = arrays["account"][rows]
    owed = _owed_if_resumed(arrays, rows, context).sum(axis=1)
    part = np.ones(len(arrays["vm"]))
    part[rows] = _paid_part(connection, payers, owed * context.rhythm.most_periods_charged)
    in_debt = is_one_of(arrays["owner"][rows], ledger.debts_of(connection))
    part[rows[in_debt]] = 0.0
    return {**arrays, "resumed": arrays["resumed"] * part[:, np.newaxis], "paid_part": part}


def means_in(
    connection: sa.Connection, context: PeriodContext, period: int
) -> Mapping[int, MeansAtRest]:
    """Return the means of VMs that were off at the decision, by id."""
    arrays = price_store.load_allocations(connection, period)
    if arrays is None or "paid_part" not in arrays:
        return {}
    # This includes a VM whose bid buys nothing: it gets the least that a host can give.
    rows = np.flatnonzero(arrays["rests"] & in_a_market(arrays, context.markets))
    used = is_charged_by_use(context.markets, arrays["market"])[rows]
    part = arrays["paid_part"][rows]
    units = np.where(used, _all_cores(arrays, rows) * part, arrays["resumed"][rows, CPU])
    owed = _owed_if_resumed(arrays, rows, context)[:, CPU]
    weighs = np.where(used, owed * part, owed)
    amounts = [tuple(row) for row in arrays["resumed"][rows].tolist()]
    cpu = units.tolist(), weighs.tolist()
    columns = zip(arrays["vm"][rows].tolist(), *cpu, amounts, strict=True)
    return {vm: MeansAtRest(*means) for vm, *means in columns}


def _owed_if_resumed(arrays: Mapping[str, Any], rows: Ints, context: PeriodContext) -> Floats:
    """[rows, resources]: credits for a period of running; on all cores if use is charged."""
    owed = costs(arrays, rows, context.markets)
    used = is_charged_by_use(context.markets, arrays["market"])[rows]
    if used.any():
        # The use of such a VM is charged, and it may use all its virtual CPUs.
        cores = _all_cores(arrays, rows) / UNITS_PER_CORE
        owed[:, CPU] = np.where(used, arrays["rate"][rows] * cores, owed[:, CPU])
    return owed


def _all_cores(arrays: Mapping[str, Any], rows: Ints) -> Floats:
    """[rows]: all virtual CPUs, in percent of a core."""
    percent: Floats = arrays["vcpus"][rows] * float(UNITS_PER_CORE)
    return percent


def _paid_part(connection: sa.Connection, payers: Ints, most: Floats) -> Floats:
    """[rows]: the part of these amounts that each payer can pay for all of its VMs."""
    known = account_store.get(
        connection, [number for number in set(payers.tolist()) if number >= 0]
    )
    part = np.zeros(len(most))
    for account, payer in known.items():
        mine = payers == account
        total = float(most[mine].sum())
        part[mine] = min(max(payer.free, 0) / MICRO / total, 1.0) if total > 0 else 1.0
    return part
