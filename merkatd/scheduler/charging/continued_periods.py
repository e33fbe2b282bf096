"""Continued periods: allocations that remain in force until another period decides.

# Note [A period that charges and does not decide]

A period charges the previous one up to its own observation, and decides in a later transaction. In
between the database can fail, the daemon can be killed, or the strategy can raise an error. VMs
then keep the previous allocations until a later period decides. So the charge stores, in its own
transaction, the columns by which the new period is charged if it never decides: the previous
period's columns, updated with the new observation (records, hosts and counters). It also reserves
their highest possible cost. A decision replaces both. Example: period 7 decided. Period 8 charges
it but can't store its decision. Period 9 observes a minute later and charges period 8 for that
minute, with 7's allocations and prices.

VMs that are gone by then have been paid for. New VMs were given nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from twisted.logger import Logger

from merkatd import ledger
from merkatd.cluster import ACTIVE
from merkatd.cluster.columns import NO_HOST, is_one_of, rows_of
from merkatd.database.scheduler import period_store, price_store
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging import held_memory, used_cpu
from merkatd.scheduler.charging.charged_records import ChargeInput
from merkatd.scheduler.charging.owed_amounts import most_owed
from merkatd.scheduler.clearing.cleared_room import ROOM_COLUMNS, still_owed
from merkatd.scheduler.clearing.stored_weights import WEIGHT_COLUMNS
from merkatd.scheduler.observation import guest_starts, looks
from merkatd.scheduler.observation.observed import Observed

_OF_ALL = frozenset(
    {"price", "seen_s", "goods", "by_use", "reserve", *ROOM_COLUMNS, *WEIGHT_COLUMNS}
)
"""Columns without a row for each VM."""

_log = Logger()


def go_on(books: ChargeInput, arrays: Mapping[str, Any]) -> None:
    """Store the columns by which the present period is charged if it does not decide.

    `arrays` are the columns that were charged up to now.
    """
    connection, world, number = books.connection, books.world, books.seen.period
    try:
        columns = columns_from_now_on(arrays, books.seen, world.markets)
        most = most_owed(columns, world.markets, world.rhythm.most_periods_charged)
    except Exception:  # noqa: BLE001 - this period may decide in spite of faulty columns
        _log.failure("Until period {period} decides, VMs are not charged", period=number)
        return
    price_store.store_allocations(connection, number, columns)
    ledger.reserve(connection, number, most, world.now())
    period_store.continued(connection, number)


def columns_from_now_on(
    arrays: Mapping[str, Any], observed: Observed, markets: Sequence[MarketRules]
) -> Mapping[str, Any]:
    """Return an earlier decision's columns for a period that begins with this observation."""
    there = is_one_of(arrays["vm"], observed.observation.vm_id)
    columns = {
        name: values if name in _OF_ALL else values[there]
        for name, values in still_owed(arrays).items()
    }
    vms = observed.snapshot.vms
    rows = rows_of(vms.id, columns["vm"])
    state, host = vms.state[rows], observed.observation.vm_host[rows]
    runs = is_one_of(state, ACTIVE) & (host >= 0)
    rests = held_memory.has_floor_at_rest(vms)[rows]
    if "rests" in columns:
        # A resumed VM keeps the amount that its bid buys.
        columns["rests"] = rests | (columns["rests"] & runs)
    elif rests.any():
        columns |= {"rests": rests, "resumed": np.zeros_like(columns["allocation"])}
    columns["placed"] = columns["placed"] & ~runs
    columns["runs"] = runs
    columns["host"] = np.append(observed.snapshot.hosts.id, NO_HOST)[vms.host[rows]]
    columns["seen_s"] = np.array([observed.snapshot.now_s])
    columns |= {
        name: values[rows] for name, values in looks.records_column(observed.observation).items()
    }
    counters = used_cpu.columns_for_charge(observed, markets, arrays) if "rate" in arrays else {}
    columns |= {name: values[rows] for name, values in counters.items() if name != "rate"}
    if "begins_mib" in columns:
        begins, size = guest_starts.begins_with(observed)
        again = ~np.isnan(columns["begins_mib"])
        columns["begins_mib"] = np.where(again, begins[rows], np.nan)
        columns["size_mib"] = size[rows]
    return columns
