"""Checker of charges: recomputes what each period should have cost from the stored details."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Bools, Floats, Ints
from merkatd.currency import MICRO
from merkatd.database.ledger import charge_store, entry_store, rollup_store, usage_store
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.period_store import PeriodRow, PeriodState
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.scheduler.charging.used_cpu import CPU
from tests.ledger.site import INTERVAL_S, VMS

_MOST_PERIODS = 2.0
_PRECISION = 1e-3
"""The error of amounts in floating point, in micro-credits."""


@dataclass(slots=True)
class Dues:
    """The charges verified so far, period by period."""

    looked_to: int = 0
    """The newest verified period."""
    taken: Counter[int] = field(default_factory=Counter)
    """By account: micro-credits charged in all periods up to that one."""
    missing: int = 0

    def look(self, connection: sa.Connection) -> None:
        """Check that each period charged since the last call was charged once and correctly."""
        stored = {period.number: period for period in period_store.recent(connection, 1_000_000)}
        charged = sorted(n for n, period in stored.items() if period.state is PeriodState.CHARGED)
        newest = charged[-1]
        left = {
            number: period.state
            for number, period in stored.items()
            if number < newest
            and period.decided_s is not None
            and period.state is not PeriodState.CHARGED
        }
        assert not left, "these periods were never charged"
        known = rollup_store.rolled_up_to(connection)
        assert known <= self.looked_to, "rolled up before it was verified: keep more"
        for number in charged:
            if number > self.looked_to:
                self._check(connection, stored[number], stored)
        for number in stored.keys() - set(charged):
            assert not entry_store.transactions_below(connection, f"charge/{number}/"), (
                "charged, but not marked as charged"
            )
        self.looked_to = newest

    def check_totals(self, connection: sa.Connection) -> None:
        """Check that the charges of each account, rolled up or not, equal the verified sum."""
        for account, amount in self.taken.items():
            moved = entry_store.sums(connection, account, 0.0, None)
            assert -moved[entry_store.TransactionKind.CHARGE] == amount

    def _check(
        self, connection: sa.Connection, period: PeriodRow, stored: dict[int, PeriodRow]
    ) -> None:
        arrays = price_store.load_allocations(connection, period.number)
        detail = usage_store.load(connection, period.number)
        assert arrays is not None
        assert detail is not None
        rows = np.searchsorted(arrays["vm"], detail.vm)
        assert detail.vm.tolist() == arrays["vm"][rows].tolist()
        elapsed_s = _elapsed(period, stored) * INTERVAL_S
        # A VM that ran at the decision continues; a VM that was just placed starts late.
        _, began_s, ended_s = arrays["record"].T
        running = arrays["runs"] & (began_s > 0) & (ended_s == 0)
        assert running.sum() <= VMS
        assert set(arrays["vm"][running]) <= set(detail.vm) or not elapsed_s
        assert (detail.seconds[running[rows]] == elapsed_s).all()
        assert (detail.seconds > 0).all()
        assert (detail.seconds <= elapsed_s).all()
        price: Floats = arrays["price"][arrays["market"][rows]]
        # A good without contention is paid for by running time alone.
        contended: Bools = arrays["contended"][rows]
        alone: Bools = running[rows] | ~contended.any(axis=1)
        sure = contended | alone[:, np.newaxis]
        periods_run = detail.seconds[:, np.newaxis] / INTERVAL_S
        given: Floats = arrays["allocation"][rows]
        owed = _each(arrays, rows, price * given) * periods_run * MICRO
        # Each amount is a difference of two rounded ones, and wrong by less than a micro-credit.
        least = np.where(sure, np.floor(owed - _PRECISION), 0.0).astype(np.int64)
        greatest = np.ceil(owed + _PRECISION).astype(np.int64)
        # A VM that starts also pays for its use of all cores before limits applied.
        all_cores = UNITS_PER_CORE * arrays["vcpus"][rows] * elapsed_s / INTERVAL_S
        more = np.ceil(price[:, CPU] * all_cores * MICRO).astype(np.int64)
        due: Counter[int] = Counter()
        most: Counter[int] = Counter()
        paid: Counter[int] = Counter()
        for row, account in enumerate(detail.account.tolist()):
            due[account] += int(least[row].sum())
            most[account] += int(greatest[row].sum()) + int(more[row] * ~running[rows][row])
            paid[account] += int(detail.charged[row].sum())
        missing = charge_store.shortfalls(connection, period.number)
        in_all = {n: paid[n] + missing.get(n, 0) for n in due}
        outside = {
            n: (due[n], in_all[n], most[n]) for n in due if not due[n] <= in_all[n] <= most[n]
        }
        assert not outside, "account: (least, charged or missing, most)"
        posted = {
            int(reference.rpartition("/")[2]): entry_store.amounts_of(connection, number)
            for reference, number in entry_store.transactions_below(
                connection, f"charge/{period.number}/"
            ).items()
        }
        assert posted.keys() == {account for account, amount in in_all.items() if amount}
        assert {n: -posted[n].get(n, 0) for n in posted} == {n: paid[n] for n in posted}
        self.taken.update(paid)
        self.missing += sum(missing.values())


def _each(arrays: Mapping[str, Any], rows: Ints, owed: Floats) -> Floats:
    """Return credits a period: the price of the allocation, at most the bid.

    If the floor at the reserve price exceeds the bid, the floor is the limit.
    """
    market = arrays["market"][rows]
    floor = np.minimum(arrays["floor"][rows], arrays["allocation"][rows])
    most = np.maximum(arrays["bid"][rows], arrays["reserve"][market] * floor)
    taken: Floats = np.minimum(owed, most)
    return taken


def _elapsed(period: PeriodRow, stored: dict[int, PeriodRow]) -> float:
    """Return the number of periods until the observation that the charge used."""
    at_s = period.charged_s
    assert at_s is not None
    later = [n for n, other in stored.items() if n > period.number and other.observed_s <= at_s]
    until_s = stored[max(later)].observed_s
    return min((until_s - period.observed_s) / INTERVAL_S, _MOST_PERIODS)
