"""Quotes of limit orders: who may ask for them, what is refused, and what periods record."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred

from merkatd.api.xmlrpc.errors import Code
from merkatd.currency.settings import MoneySettings
from merkatd.database.room_price_store import ROOM_PRICES, load_rooms
from merkatd.service import room_recorder
from merkatd.service.room_recorder import RoomRecorder, rooms_of
from tests.scheduler.frontend import PAPER_MARKET, PASSWORD, Frontend
from tests.service.interfaces import Interfaces, contended, without_none

ANN, BOB = f"ann:{PASSWORD}", f"bob:{PASSWORD}"
QUOTE = "merkat.order.quote"
MONEY = MoneySettings(supply=1e6, starting_credits=1e4)


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield interfaces with Ann's VMs 0 and 1 and Bob's 2 and 3; all may use VM 1."""
    yield from contended(Frontend(hosts=1, money=MONEY))


def record(asked: Interfaces, recorder: RoomRecorder) -> None:
    """Run a period and offer it to the recorder."""
    asked.periods(1)
    latest = asked.frontend.scheduler.latest
    assert latest is not None
    asked.frontend.result(ensureDeferred(recorder.record(latest)))


def periods_recorded(asked: Interfaces) -> list[int]:
    """Return the recorded periods."""
    query = sa.select(ROOM_PRICES.c.period).distinct().order_by(ROOM_PRICES.c.period)
    recorded: list[int] = asked.frontend.read(lambda c: list(c.scalars(query)))
    return recorded


def test_all_interfaces_give_the_same_quote(asked: Interfaces) -> None:
    """A tenant gets the quote of its own VMs, and of sizes; the text is the services'."""
    value, code = asked.call(ANN, QUOTE, [0, 1], {}, {"work_s": 600.0, "within_s": 1200.0})
    assert code == 0
    same = asked.control("limit_order_quote", vms=[0, 1], work_s=600.0, within_s=1200.0)
    assert value == without_none(same)
    assert "odds need at least 1 h" in value["why"]
    assert value["odds"] == []
    sized, code = asked.call(ANN, QUOTE, [], {"cpu": 100.0, "memory": 512.0})
    assert code == 0
    assert sized == without_none(asked.control("limit_order_quote", cpu=100.0, memory=512.0))
    assert sized["limit_to_start"] > 0
    assert "limit_to_start" not in value, "both need more than the only host has"


def test_only_users_of_a_vm_get_its_quote(asked: Interfaces) -> None:
    """All may use VM 1; VM 2 is Bob's alone."""
    assert asked.call(BOB, QUOTE, [1])[1] == 0
    assert asked.call(ANN, QUOTE, [2])[1] == Code.AUTHORIZATION
    assert asked.call(ANN, QUOTE, [0, 99])[1] == Code.NO_EXISTS
    assert asked.call(BOB, QUOTE, [2, 3])[1] == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([0], {"cpu": 1.0}), "vms and size: only one of the two may be given"),
        (([],), "the amount of at least one of cpu, memory is needed"),
        (([], {"cpu": float("nan")}), "cpu: must be a number from 0 to"),
        (([], {"cpus": 1.0}), "size: unknown member 'cpus'; known: cpu, memory, market"),
        (([], {"cpu": 1.0, "market": 7}), "market: must be a text"),
        (([0], {}, {"limits": []}), "limits: must be a list of 1 to 20 numbers"),
        (([0], {}, {"limits": [1.0] * 21}), "limits: must be a list of 1 to 20 numbers"),
        (([0], {}, {"limits": ["x"]}), "limits: must be a number from 0 to"),
        (([0], {}, {"work_s": 60.0}), "within_s: must be a number above 0 if work_s is given"),
        (([0], {}, {"within_s": 1e300, "work_s": 1.0}), "within_s: must be a number from 0 to"),
        (([0], {}, {"by_s": 1.0}), "terms: unknown member 'by_s'"),
        ((["0"],), "vms: must be ids of VMs"),
        (([0] * 1001,), "vms: must be 1 to 1000 VMs"),
    ],
)
def test_wrong_arguments_are_named(
    asked: Interfaces, arguments: tuple[Any, ...], text: str
) -> None:
    """Nothing hostile gets further than the check."""
    value, code = asked.call(ANN, QUOTE, *arguments)
    assert code != 0
    assert text in value


def test_a_market_of_the_paper_has_no_quotes() -> None:
    """Its prices do not clear, so it has no orders, and nothing is recorded."""
    for asked in contended(Frontend(hosts=1, money=MONEY, markets=(PAPER_MARKET,))):
        value, code = asked.call(ANN, QUOTE, [0])
        assert code != 0
        assert "market default has no limit orders" in value
        record(asked, RoomRecorder(asked.frontend.scheduler))
        assert periods_recorded(asked) == []


class TestRecorder:
    def test_it_records_every_five_minutes(self, asked: Interfaces) -> None:
        """Periods come each minute, and every fifth one is recorded."""
        recorder = RoomRecorder(asked.frontend.scheduler)
        first = asked.frontend.scheduler.latest
        assert first is not None
        for _ in range(11):
            record(asked, recorder)
        begin = first.period + 1
        assert periods_recorded(asked) == [begin, begin + 5, begin + 10]

    def test_a_record_says_what_the_quote_of_now_says(self, asked: Interfaces) -> None:
        """A part of the capacity that is recorded needs the same limit."""
        record(asked, RoomRecorder(asked.frontend.scheduler))
        names = asked.services.views.latest.seen.snapshot.resources
        read = asked.frontend.read(lambda c: load_rooms(c, "default", names, 9))
        half = read.rooms.capacity[0] / 4
        (needed,) = read.rooms.needed(half)
        size = dict(zip(names, half.tolist(), strict=True))
        quoted, _ = asked.call(ANN, QUOTE, [], size)
        assert needed < quoted["limit_to_start"] < needed * 1.002

    def test_a_failing_record_is_logged(
        self, asked: Interfaces, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The next one is tried after five minutes; the period is not affected."""

        def fail(*_arguments: Any) -> Any:
            raise ValueError("a fault of the test")

        recorder = RoomRecorder(asked.frontend.scheduler)
        monkeypatch.setattr(room_recorder, "rooms_of", fail)
        record(asked, recorder)
        assert periods_recorded(asked) == []
        monkeypatch.setattr(room_recorder, "rooms_of", rooms_of)
        for _ in range(5):
            record(asked, recorder)
        assert len(periods_recorded(asked)) == 1
