"""Fifty programs of tenants at once: every call is answered, and no credit is spent twice."""

import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

from merkatd.client import BadCallError, Merkat
from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import audit
from merkatd.ledger import MICRO, open_application
from tests.api.xmlrpc.site import ANN, BOB, Site
from tests.lengths import shorten

CLIENTS = 50
CALLS = shorten(100, 16)
WRITES = shorten(5, 10)
"""The part of the calls that are bids, and that are budgets, in percent."""
CREDITS = 600.0
"""The credits of each of the two tenants."""
EACH = 20
"""The applications of each of the two tenants: their budgets exceed the credits."""


def test_fifty_clients_overdraw_no_account(tmp_path: Path) -> None:
    """Bids, budgets and quotes at once; what was refused is refused in words."""
    # Fifty threads can leave a connection without a call for longer than 5 s.
    made = Site(tmp_path, credits_=CREDITS, idle="60s")
    engine = make_engine(f"sqlite:///{made.state / 'merkat.db'}")
    try:
        owned: dict[str, list[int]] = {ANN: [], BOB: []}
        for session, name in ((ANN, "ann"), (BOB, "bob")):
            for number in range(EACH):
                with engine.begin() as connection:
                    budget = open_application(
                        connection, made.users[name], f"app{number}", 0, 0, time.time()
                    )
                owned[session].append(budget.application)
        results: list[Counter[str]] = []
        threads = [
            threading.Thread(target=calls, args=(made, number, owned, results))
            for number in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answered = sum(results, Counter[str]())
        assert answered.total() == CLIENTS * CALLS
        assert answered["refused"] > 20, "the budgets never came to more than there is"
        assert answered["budget"] > 20
        assert set(answered) <= {"bid", "budget", "quote", "refused"}
        made.pause()
        with engine.connect() as connection:
            assert audit(connection).sound
            for row in account_store.every(connection):
                assert row.balance >= 0 or row.kind is AccountKind.ISSUANCE
            for name, session in (("ann", ANN), ("bob", BOB)):
                held = account_store.of_owner(connection, made.users[name])
                assert sum(account.balance for account in held) <= CREDITS * MICRO
                assert len(held) == 1 + len(owned[session])
    finally:
        engine.dispose()
        made.end()


def calls(
    site: Site, number: int, owned: dict[str, list[int]], results: list[Counter[str]]
) -> None:
    """Run one program of a tenant; most calls only read."""
    rng = np.random.default_rng(number)
    session, vm = ((ANN, 0), (BOB, 1))[number % 2]
    mine: Counter[str] = Counter()
    parts = [WRITES / 100, WRITES / 100, 1 - WRITES / 50]
    with Merkat(site.endpoint, session, timeout_s=240.0) as merkat:
        for kind in rng.choice(["bid", "budget", "quote"], CALLS, p=parts):
            mine[one_call(merkat, str(kind), vm, owned[session], rng)] += 1
    results.append(mine)


def one_call(
    merkat: Merkat, kind: str, vm: int, applications: list[int], rng: np.random.Generator
) -> str:
    """Make a call and return its result."""
    amount = float(rng.uniform(1, 200))
    if kind == "bid":
        assert merkat.bid(vm, cpu=amount)[0].new == amount
    elif kind == "quote":
        assert merkat.quote(vm, cpu=amount).resources[0].share > 0
    else:
        application = applications[int(rng.integers(len(applications)))]
        try:
            merkat.set_budget(application, budget=amount)
        except BadCallError as error:
            assert "can't be moved" in str(error)  # noqa: PT017 - others are failures
            return "refused"
    return kind
