"""Answers of thousands of rows are built beside the reactor, a few at a time."""

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, execute
from twisted.internet.task import Clock

from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc import codec
from merkatd.api.xmlrpc.dispatch import Dispatch
from merkatd.api.xmlrpc.methods import METHODS, market_methods
from merkatd.currency.credits import month_of
from merkatd.currency.statement import Statement, StatementLine
from merkatd.service.account_rows import TenantStatement
from merkatd.service.base.callers import Caller
from merkatd.service.base.identity import Identity
from merkatd.service.base.turns import FairTurns

_LINE = StatementLine(
    vm=1,
    name="vm",
    account=1,
    seconds=60,
    cpu_core_s=60,
    memory_gib_s=60,
    cpu_cost=5,
    memory_cost=5,
)
_FOUND = TenantStatement(
    Statement(
        owner=1,
        name="ann",
        group=1,
        month=month_of(0.0),
        opening=10,
        movements={},
        closing=0,
        lines=[_LINE],
        missing=0,
    ),
    None,
)
_ANN, _BOB, _CAT = (
    Caller(Identity(uid, name, frozenset({1}), 1), "")
    for uid, name in enumerate(["ann", "bob", "cat"], 2)
)


class Busy:
    """An executor that records whether a call runs on it."""

    def __init__(self) -> None:
        self.runs = False
        self.calls = 0

    def run(self, call: Any) -> Deferred[Any]:
        """Run the call immediately."""
        self.calls += 1
        self.runs = True
        try:
            return execute(call)
        finally:
            self.runs = False


class Slow:
    """Accounts that answer on the test's command."""

    def __init__(self) -> None:
        self.reading: list[Deferred[TenantStatement]] = []

    def statement(self, *_: Any) -> Deferred[TenantStatement]:
        """Start reading a statement that only the test completes."""
        self.reading.append(Deferred())
        return self.reading[-1]


@pytest.fixture
def house() -> Any:
    """Return the parts of the service that the tests use."""
    return SimpleNamespace(
        world=SimpleNamespace(executor=Busy(), now=lambda: 0.0),
        accounts=Slow(),
        sign_ins=SimpleNamespace(is_good=lambda _: True),
        long_reads=FairTurns(2, per_key=1),
    )


def asked(house: Any, caller: Caller) -> Deferred[Any]:
    """Return the caller's own statement of this month."""
    call: Any = METHODS["merkat.statement.info"].function(house, caller, -1, "")
    return ensureDeferred(call)


def test_a_user_has_one_statement_read_at_a_time(house: Any) -> None:
    """All users together have two; other database threads are left to periods."""
    accounts: Any = house.accounts
    answers = [asked(house, caller) for caller in (_ANN, _ANN, _BOB, _CAT, _ANN)]
    assert len(accounts.reading) == 2
    for begun in (3, 4, 5, 5, 5):
        next(read for read in accounts.reading if not read.called).callback(_FOUND)
        assert len(accounts.reading) == begun
    assert all(answer.called for answer in answers)


def test_a_user_has_one_vm_explained_at_a_time(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is that of statements."""
    explaining: list[Deferred[Any]] = []

    def answer(*_: Any) -> Deferred[Any]:
        explaining.append(Deferred())
        return explaining[-1]

    async def explain(_caller: Any, _now: Any, _vm: int, run: Any) -> Any:
        return await run(answer)

    async def prepared() -> Any:
        return SimpleNamespace(now=None)

    house.views = SimpleNamespace(prepared=prepared)
    house.explanations = SimpleNamespace(explain=explain)
    monkeypatch.setattr(market_methods, "explanation_row", dict)
    function = METHODS["merkat.vm.explain"].function
    for caller in (_ANN, _ANN, _BOB, _CAT):
        ensureDeferred(function(house, caller, 1))  # type: ignore[arg-type]
    assert len(explaining) == 2
    explaining[0].callback({})
    assert len(explaining) == 3


def test_rows_are_written_beside_the_reactor(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for statements and for any other answer."""
    executor: Any = house.world.executor
    written: list[bool] = []
    kept = codec.encoded

    def noted(value: Any) -> Any:
        written.append(executor.runs)
        return kept(value)

    async def done(*_: Any) -> Any:
        return answers.pop(0)

    monkeypatch.setattr(codec, "encoded", noted)
    clock = Clock()
    dispatch = Dispatch(house, ApiSettings(), clock)
    monkeypatch.setattr(dispatch, "_done", done)
    body = (
        b"<methodCall><methodName>merkat.statement.info</methodName><params><param>"
        b"<value><string>a:b</string></value></param></params></methodCall>"
    )
    answers: list[Any] = [[1] * 1000, {"vms": [{"a": 1}] * 1000}, {"vms": []}, 5]
    for _ in range(4):
        ensureDeferred(dispatch.answer(body, "192.0.2.1"))
        clock.pump([0.01] * 10)
    assert written == [True, True, False, False]
    accounts: Any = house.accounts
    asked(house, _ANN)
    before = executor.calls
    accounts.reading[0].callback(_FOUND)
    assert executor.calls == before + 1
