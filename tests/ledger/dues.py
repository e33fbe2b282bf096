"""What each period should have cost, worked out once more from what was kept of it."""

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


@dataclass(slots=True)
class Dues:
    """What was found to be right until now, period by period."""

    looked_to: int = 0
    """The newest period that was looked at."""
    taken: Counter[int] = field(default_factory=Counter)
    """By account: micro-credits of all periods up to that one."""
    missing: int = 0

    def look(self, connection: sa.Connection) -> None:
        """Every period charged since the last look was charged once, and for what it was."""
        stored = {one.number: one for one in period_store.recent(connection, 1_000_000)}
        charged = sorted(n for n, one in stored.items() if one.state is PeriodState.CHARGED)
        newest = charged[-1]
        left = {
            number: one.state
            for number, one in stored.items()
            if number < newest
            and one.decided_s is not None
            and one.state is not PeriodState.CHARGED
        }
        assert not left, "what was given in these was never charged"
        known = rollup_store.rolled_up_to(connection)
        assert known <= self.looked_to, "rolled up before it was looked at: keep more"
        for number in charged:
            if number > self.looked_to:
                self._check(connection, stored[number], stored)
        for number in stored.keys() - set(charged):
            assert not entry_store.transactions_below(connection, f"charge/{number}/"), (
                "charged, and not said so"
            )
        self.looked_to = newest

    def whole(self, connection: sa.Connection) -> None:
        """What left the accounts for charges is the sum of all that; also of what is days now."""
        for account, amount in self.taken.items():
            moved = entry_store.sums(connection, account, 0.0, None)
            assert -moved[entry_store.TransactionKind.CHARGE] == amount

    def _check(
        self, connection: sa.Connection, one: PeriodRow, stored: dict[int, PeriodRow]
    ) -> None:
        arrays = price_store.load_allocations(connection, one.number)
        detail = usage_store.load(connection, one.number)
        assert arrays is not None
        assert detail is not None
        rows = np.searchsorted(arrays["vm"], detail.vm)
        assert detail.vm.tolist() == arrays["vm"][rows].tolist()
        elapsed_s = _elapsed(one, stored) * INTERVAL_S
        # A VM that ran when the period was decided goes on here; one that was placed starts late.
        _, began_s, ended_s = arrays["record"].T
        running = arrays["runs"] & (began_s > 0) & (ended_s == 0)
        assert running.sum() <= VMS
        assert set(arrays["vm"][running]) <= set(detail.vm) or not elapsed_s
        assert (detail.seconds[running[rows]] == elapsed_s).all()
        assert (detail.seconds > 0).all()
        assert (detail.seconds <= elapsed_s).all()
        price: Floats = arrays["price"][arrays["market"][rows]]
        # A good that no other VM lacked is paid for by running time alone.
        contended: Bools = arrays["contended"][rows]
        alone: Bools = running[rows] | ~contended.any(axis=1)
        sure = contended | alone[:, np.newaxis]
        periods_run = detail.seconds[:, np.newaxis] / INTERVAL_S
        given: Floats = arrays["allocation"][rows]
        owed = np.rint(_each(arrays, rows, price * given) * periods_run * MICRO).astype(np.int64)
        least = np.where(sure, owed, 0)
        # A VM that is started pays for what it had of all its cores before it had limits as well.
        all_cores = UNITS_PER_CORE * arrays["vcpus"][rows] * elapsed_s / INTERVAL_S
        more = np.ceil(price[:, CPU] * all_cores * MICRO).astype(np.int64)
        due: Counter[int] = Counter()
        most: Counter[int] = Counter()
        paid: Counter[int] = Counter()
        for row, account in enumerate(detail.account.tolist()):
            due[account] += int(least[row].sum())
            most[account] += int(owed[row].sum()) + int(more[row] * ~running[rows][row])
            paid[account] += int(detail.charged[row].sum())
        missing = charge_store.shortfalls(connection, one.number)
        whole = {n: paid[n] + missing.get(n, 0) for n in due}
        assert all(due[n] <= whole[n] <= most[n] for n in due)
        posted = {
            int(reference.rpartition("/")[2]): entry_store.amounts_of(connection, number)
            for reference, number in entry_store.transactions_below(
                connection, f"charge/{one.number}/"
            ).items()
        }
        assert posted.keys() == {account for account, amount in whole.items() if amount}
        assert {n: -posted[n].get(n, 0) for n in posted} == {n: paid[n] for n in posted}
        self.taken.update(paid)
        self.missing += sum(missing.values())


def _each(arrays: Mapping[str, Any], rows: Ints, whole: Floats) -> Floats:
    """Credits a period: the price of what was given, the bid at most.

    Or the floor at the reserve price, where that is more than the bid.
    """
    market = arrays["market"][rows]
    floor = np.minimum(arrays["floor"][rows], arrays["allocation"][rows])
    most = np.maximum(arrays["bid"][rows], arrays["reserve"][market] * floor)
    found: Floats = np.minimum(whole, most)
    return found


def _elapsed(one: PeriodRow, stored: dict[int, PeriodRow]) -> float:
    """Periods that passed until the observation with which it was charged."""
    at_s = one.charged_s
    assert at_s is not None
    later = [n for n, other in stored.items() if n > one.number and other.observed_s <= at_s]
    until_s = stored[max(later)].observed_s
    return min((until_s - one.observed_s) / INTERVAL_S, _MOST_PERIODS)
