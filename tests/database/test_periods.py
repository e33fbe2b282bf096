"""A period has a unique number, and its states only advance."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database.base.transactions import LostRaceError
from merkatd.database.retention import Horizon, delete_old_rows
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.period_store import PeriodState, PeriodStateError
from tests.database.again import retry_transaction


def begin(connection: sa.Connection, at_s: float = 0.0) -> int:
    """Begin a period that observed two hosts and three VMs."""
    return period_store.begin(connection, at_s, at_s + 1.0, hosts=2, vms=3)


def test_numbers_ascend_from_one(connection: sa.Connection) -> None:
    """The first period is 1, and each next number is one more."""
    assert [begin(connection) for _ in range(3)] == [1, 2, 3]


def test_a_number_counts_only_once_it_is_committed(file_engine: sa.Engine) -> None:
    """A rollback leaves no gap, and a committed number is never reused."""
    with file_engine.begin() as connection:
        first = begin(connection)
    with file_engine.connect() as connection:
        lost = begin(connection)
    with file_engine.begin() as connection:
        assert begin(connection) == lost == first + 1


def test_concurrent_periods_get_different_numbers(file_engine: sa.Engine) -> None:
    """Twenty periods begun by four threads have twenty numbers."""

    def make_period(_: int) -> int:
        return retry_transaction(file_engine, begin)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(make_period, range(20))) == list(range(1, 21))


def test_a_taken_number_is_a_lost_race(
    connection: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If two transactions see the same newest period, the second one is retried."""
    begin(connection)
    monkeypatch.setattr(connection, "scalar", lambda _query: None)
    with pytest.raises(LostRaceError, match="period 1"):
        begin(connection)


def test_periods_are_found_by_the_time_of_their_charge(connection: sa.Connection) -> None:
    """Of the charged periods, only those of this time are returned, newest first."""
    for at_s in (5.0, 6.0, 6.0):
        number = begin(connection)
        period_store.decided(connection, number, 2.0, "tabu")
        period_store.charged(connection, number, at_s)
    begin(connection)
    assert period_store.charged_at(connection, 6.0) == (3, 2)
    assert period_store.charged_at(connection, 5.0) == (1,)
    assert period_store.charged_at(connection, 7.0) == ()


def test_a_period_goes_from_observed_to_charged(connection: sa.Connection) -> None:
    """Each state is stored with its time."""
    number = begin(connection, 60.0)
    period_store.decided(connection, number, 62.0, "tabu")
    for _ in range(2):  # a retried transaction changes nothing
        period_store.acted(connection, number, 63.0)
    with pytest.raises(PeriodStateError, match="period 1 is acted"):
        period_store.acted(connection, number, 64.0)
    period_store.charged(connection, number, 120.0)
    period = period_store.get(connection, number)
    assert period is not None
    assert period.state is PeriodState.CHARGED
    times = (
        period.started_s,
        period.observed_s,
        period.decided_s,
        period.acted_s,
        period.charged_s,
    )
    assert times == (60.0, 61.0, 62.0, 63.0, 120.0)
    assert (period.hosts, period.vms, period.strategy, period.failure) == (2, 3, "tabu", None)


def test_a_failed_period_keeps_its_reason_and_ends(connection: sa.Connection) -> None:
    """A failed period cannot continue, and the error names its state."""
    number = begin(connection)
    period_store.failed(connection, number, 5.0, "the server did not answer")
    period = period_store.newest(connection)
    assert period is not None
    assert (period.state, period.failure) == (PeriodState.FAILED, "the server did not answer")
    with pytest.raises(
        PeriodStateError, match="period 1 is failed; to become decided it must be continued"
    ):
        period_store.decided(connection, number, 6.0, "tabu")


def test_a_period_is_charged_once(connection: sa.Connection) -> None:
    """A second charge is an error, and so is the charge of an unknown period."""
    number = begin(connection)
    period_store.decided(connection, number, 1.0, "tabu")
    period_store.charged(connection, number, 2.0)
    with pytest.raises(PeriodStateError, match="is charged"):
        period_store.charged(connection, number, 3.0)
    with pytest.raises(PeriodStateError, match="does not exist"):
        period_store.charged(connection, 99, 3.0)


def test_recent_periods_come_newest_first(connection: sa.Connection) -> None:
    """The list has as many as requested, optionally of one state."""
    for _ in range(4):
        begin(connection)
    period_store.failed(connection, 2, 1.0, "why")
    assert [period.number for period in period_store.recent(connection, 3)] == [4, 3, 2]
    assert [period.number for period in period_store.recent(connection, 3, PeriodState.FAILED)] == [
        2
    ]


def test_allocations_are_one_blob_a_period(connection: sa.Connection) -> None:
    """They are read as arrays until retention deletes them."""
    ids, given = np.arange(5), np.random.default_rng(1).random((5, 2))
    for _ in range(2):
        price_store.store_allocations(
            connection, begin(connection), {"vm": ids, "allocation": given}
        )
    delete_old_rows(connection, Horizon(2, 0.0, 0.0))
    arrays = price_store.load_allocations(connection, 2)
    assert arrays is not None
    np.testing.assert_array_equal(arrays["allocation"], given)
    assert price_store.load_allocations(connection, 1) is None


def test_prices_keep_infinity(connection: sa.Connection) -> None:
    """A price that does not clear is stored as infinite, although servers have no infinity."""
    number = begin(connection)
    prices = {"default": {"cpu": 0.5, "memory": math.inf}, "batch": {"cpu": 0.0, "memory": 0.25}}
    price_store.store_prices(connection, number, prices)
    assert price_store.load_prices(connection, number) == prices


@pytest.mark.parametrize("price", [math.nan, -1.0])
def test_an_invalid_price_is_an_error(connection: sa.Connection, price: float) -> None:
    """NaN and negative numbers are no prices."""
    with pytest.raises(ValueError, match="a price must be a number of at least 0"):
        price_store.store_prices(connection, begin(connection), {"default": {"cpu": price}})


def test_a_markets_price_history_is_ordered(connection: sa.Connection) -> None:
    """Prices of one market come oldest first, from the requested time on."""
    for at_s in (0.0, 60.0, 120.0):
        number = begin(connection, at_s)
        price_store.store_prices(
            connection, number, {"default": {"cpu": at_s}, "batch": {"cpu": 9.0}}
        )
    points = price_store.history(connection, "default", since_s=60.0)
    assert [(point.period, point.price) for point in points] == [(2, 60.0), (3, 120.0)]


def test_past_prices_are_an_interval_apart(connection: sa.Connection) -> None:
    """Early periods at a high price move neither the means of days nor the spaced history."""
    for minute in range(100):
        number = begin(connection, 60.0 * minute)
        price_store.store_prices(connection, number, {"default": {"cpu": 1.0}})
        for second in range(1, 31 * (minute % 10 == 0)):
            number = begin(connection, 60.0 * minute + second)
            price_store.store_prices(connection, number, {"default": {"cpu": 9.0}})
    points = price_store.history(connection, "default", 0.0)
    assert len(points) == 400
    spaced = price_store.spaced(points, 60.0)
    assert spaced[-1] == points[-1]
    assert 95 <= len(spaced) <= 101
    assert sum(point.price for point in spaced) / len(spaced) < 2.0
    (day,) = price_store.daily(connection, 0.0, 86_400.0)
    assert day["default", "cpu"] < 2.0
    regular = [point for point in points if point.started_s % 60.0 == 0.0]
    assert price_store.spaced(regular, 60.0) == regular


def test_spaced_periods_are_the_first_of_each_slot(connection: sa.Connection) -> None:
    """Slots begin at multiples of their length, and earlier periods are left out."""
    for at_s in (0.0, 590.0, 601.0, 1_100.0, 1_201.0, 5_000.0):
        begin(connection, at_s)
    assert period_store.spaced(connection, 0.0, 600) == (1, 3, 5, 6)
    assert period_store.spaced(connection, 700.0, 600) == (4, 5, 6)
    assert period_store.spaced(connection, 9_000.0, 600) == ()
