"""Limit orders: a VM is in at most one, outcomes change only what changed, and none stays empty."""

import math
from collections.abc import Iterable
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd.cluster.orders import LimitOrder, OrderOutcome
from merkatd.database.base.transactions import LostRaceError, is_transient
from merkatd.database.scheduler import limit_order_store
from merkatd.database.scheduler.limit_order_vm_store import (
    LIMIT_ORDER_VMS,
    saved_vms,
    update_saved,
)

ANN, BOB = 2, 3


def stored(connection: sa.Connection, vms: Iterable[int], owner: int = ANN) -> LimitOrder:
    """Store a limit order of these VMs."""
    return limit_order_store.add(
        connection, owner=owner, vms=vms, limit=3.5, least_run_s=600.0, factor=2.0, stated_s=10.0
    )


def count(connection: sa.Connection) -> tuple[int, int]:
    """Return the numbers of orders and of VMs in orders."""
    orders = sa.select(sa.func.count()).select_from(limit_order_store.LIMIT_ORDERS)
    vms = sa.select(sa.func.count(LIMIT_ORDER_VMS.c.limit_order))
    return connection.scalar(orders) or 0, connection.scalar(vms) or 0


def test_a_limit_order_is_stored_and_found(connection: sa.Connection) -> None:
    """It is found by its id, its VMs and its owner; its VMs are in ascending order."""
    first, second = stored(connection, [14, 12, 13]), stored(connection, [7], BOB)
    assert first == LimitOrder(
        id=first.id,
        owner=ANN,
        vms=(12, 13, 14),
        limit=3.5,
        least_run_s=600.0,
        factor=2.0,
        stated_s=10.0,
    )
    assert second.id > first.id
    assert limit_order_store.living(connection) == (first, second)
    assert limit_order_store.living(connection, BOB) == (second,)
    assert limit_order_store.of_vms(connection, [13, 7, 99]) == {13: first, 7: second}
    for lock in (False, True):
        ids = {first.id, second.id, second.id + 1}
        assert list(limit_order_store.of_ids(connection, ids, lock=lock)) == [first, second]
    assert limit_order_store.lock_owner(connection, ANN) == 1
    assert limit_order_store.lock_owner(connection, 99) == 0


def test_only_the_terms_change(connection: sa.Connection) -> None:
    """A change keeps the VMs, the time and the outcome, and other orders."""
    first, second = stored(connection, [1, 2]), stored(connection, [3])
    limit_order_store.record_outcomes(
        connection, [OrderOutcome(first.id, runs=True, cost=1.5, why="it fits")], 20.0
    )
    changed = replace(first, limit=9.0, least_run_s=0.0, factor=1.0)
    limit_order_store.change(connection, changed)
    outcome: dict[str, Any] = {"runs": True, "since_s": 20.0, "cost": 1.5, "why": "it fits"}
    assert limit_order_store.living(connection) == (replace(changed, **outcome), second)


def test_a_vm_is_in_at_most_one_order(connection: sa.Connection) -> None:
    """The transaction that comes second is run again: it then finds the first order."""
    stored(connection, [1, 2])
    with pytest.raises(LostRaceError) as raised, connection.begin_nested():
        stored(connection, [2, 3])
    assert is_transient(raised.value)
    assert count(connection) == (1, 2)


def test_withdrawn_orders_are_gone(connection: sa.Connection) -> None:
    """Their VMs can be in another order."""
    first, second, third = (stored(connection, [vm, vm + 1]) for vm in (1, 3, 5))
    limit_order_store.withdraw(connection, [first.id, third.id, 999])
    assert limit_order_store.living(connection) == (second,)
    assert count(connection) == (1, 2)
    assert stored(connection, [1, 6]).vms == (1, 6)


def test_no_id_is_used_again(connection: sa.Connection) -> None:
    """A program that kept the id of a deleted order changes no other order."""
    first = stored(connection, [1])
    limit_order_store.withdraw(connection, [first.id])
    assert stored(connection, [1]).id > first.id


def test_an_order_without_vms_is_deleted(connection: sa.Connection) -> None:
    """An order that keeps a VM stays with the others."""
    first, second = stored(connection, [1, 2, 3]), stored(connection, [4])
    limit_order_store.remove_vms(connection, [2, 4, 99])
    assert limit_order_store.living(connection) == (replace(first, vms=(1, 3)),)
    limit_order_store.remove_vms(connection, [1, 3])
    assert count(connection) == (0, 0)
    assert second.id not in {order.id for order in limit_order_store.living(connection)}


def test_lost_vms_are_gone_or_have_another_owner(connection: sa.Connection) -> None:
    """A VM that can't be read exists, with an unknown owner: it stays."""
    stored(connection, [1, 2, 3, 4, 5])
    owners = {1: ANN, 2: BOB, 5: BOB}
    assert limit_order_store.lost_vms(connection, owners, {4, 5}) == {2, 3, 5}
    assert limit_order_store.lost_vms(connection, dict.fromkeys(range(6), ANN), set()) == set()


def test_the_time_of_a_state_changes_with_the_state_alone(connection: sa.Connection) -> None:
    """An order that never ran has no time; a new cost or reason keeps the time."""
    order = stored(connection, [1])

    def outcome(at_s: float, runs: bool, cost: float | None, why: str) -> Any:
        new = OrderOutcome(order.id, runs, cost, why)
        limit_order_store.record_outcomes(connection, [new], at_s)
        (now,) = limit_order_store.living(connection)
        return now.runs, now.since_s, now.cost, now.why

    assert outcome(20.0, False, 4.0, "too dear") == (False, None, 4.0, "too dear")
    assert outcome(30.0, True, 2.0, "") == (True, 30.0, 2.0, "")
    assert outcome(40.0, True, 2.5, "") == (True, 30.0, 2.5, "")
    assert outcome(50.0, False, None, "no room") == (False, 50.0, None, "no room")


def test_unchanged_outcomes_are_not_written(connection: sa.Connection) -> None:
    """Of a thousand orders that stay as they are, a period writes no row."""
    orders = [stored(connection, [vm]) for vm in range(3)]
    written: list[Any] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("UPDATE"):
            written.append(parameters)

    sa.event.listen(connection, "after_cursor_execute", note)
    running = [OrderOutcome(order.id, runs=True, cost=1.0, why="") for order in orders]
    for outcomes, rows in ((running, 3), (running, 0), ([replace(running[1], cost=2.0)], 1)):
        written.clear()
        limit_order_store.record_outcomes(connection, outcomes, 20.0)
        several = written and isinstance(written[0], list | tuple) and len(written[0]) == rows
        assert len(written) == bool(rows)
        assert rows < 2 or several
    limit_order_store.record_outcomes(connection, [replace(running[0], id=999)], 30.0)
    assert [order.cost for order in limit_order_store.living(connection)] == [1.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"vms": ()}, "vms must be different ids in ascending order"),
        ({"vms": (2, 1)}, "vms must be"),
        ({"vms": (1, 1)}, "vms must be"),
        ({"limit": 0.0}, "limit must be a finite number above 0 (got 0.0)"),
        ({"limit": math.inf}, "limit must be"),
        ({"limit": math.nan}, "limit must be"),
        ({"least_run_s": -1.0}, "least_run_s must be a finite number of at least 0 (got -1.0)"),
        ({"least_run_s": math.inf}, "least_run_s must be"),
        ({"factor": 0.5}, "factor must be a finite number of at least 1 (got 0.5)"),
        ({"factor": math.nan}, "factor must be"),
        ({"cost": -1.0}, "cost must be a finite number of at least 0, or None (got -1.0)"),
        ({"cost": math.inf}, "cost must be"),
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any], text: str) -> None:
    """The error names the order, the value and what is accepted."""
    right: dict[str, Any] = {"id": 3, "owner": ANN, "vms": (1, 2), "limit": 1.0, "stated_s": 0.0}
    LimitOrder(**right)
    with pytest.raises(ValueError, match="limit order 3: ") as raised:
        LimitOrder(**right | wrong)
    assert text in str(raised.value)


def test_the_limit_is_larger_after_a_start() -> None:
    """It is for the least run, and not while the order waits."""
    order = LimitOrder(
        id=1, owner=ANN, vms=(1,), limit=2.0, least_run_s=60.0, factor=3.0, stated_s=0.0
    )
    assert order.limit_at(0.0) == 2.0
    running = replace(order, runs=True, since_s=100.0)
    assert [running.limit_at(s) for s in (100.0, 159.0, 160.0)] == [6.0, 6.0, 2.0]
    assert replace(running, runs=False).limit_at(110.0) == 2.0


def test_the_count_of_an_owner_is_exact_for_two_at_once(file_engine: sa.Engine) -> None:
    """The second waits for the first, or is run again after it: none adds to an old count."""
    counts: list[int] = []

    def state(vm: int) -> None:
        for _ in range(20):
            try:
                with file_engine.begin() as connection:
                    counted = limit_order_store.lock_owner(connection, ANN)
                    other.start() if vm == 1 and not other.ident else None
                    other.join(0.3) if vm == 1 else None
                    stored(connection, [vm])
            except sa.exc.DBAPIError as error:
                if not is_transient(error):
                    raise
            else:
                counts.append(counted)
                return

    other = Thread(target=state, args=(2,))
    state(1)
    other.join(30.0)
    assert sorted(counts) == [0, 1]


def of_platform(connection: sa.Connection, platform: int, vms: Iterable[int] = ()) -> LimitOrder:
    """Store the limit order of a platform."""
    return limit_order_store.add(
        connection,
        owner=ANN,
        vms=vms,
        limit=3.5,
        least_run_s=600.0,
        factor=2.0,
        stated_s=10.0,
        platform=platform,
    )


def test_the_order_of_a_platform_may_have_no_vms(connection: sa.Connection) -> None:
    """It takes part in no period then, and stays until it is withdrawn."""
    empty, full = of_platform(connection, 7), of_platform(connection, 8, [5, 6])
    own = stored(connection, [1])
    assert limit_order_store.living(connection) == (full, own)
    assert limit_order_store.of_platforms(connection) == {7: empty, 8: full}
    assert limit_order_store.of_platforms(connection, 8) == {8: full}
    limit_order_store.remove_vms(connection, [1, 5, 6])
    assert limit_order_store.living(connection) == ()
    assert limit_order_store.of_platforms(connection) == {7: empty, 8: replace(full, vms=())}
    limit_order_store.withdraw(connection, [empty.id, full.id])
    assert count(connection) == (0, 0)


def test_a_platforms_vms_change(connection: sa.Connection) -> None:
    """The outcome stays while some VMs do; an order that was or becomes empty does not run."""
    order = of_platform(connection, 7, [5, 6])
    outcome = OrderOutcome(order.id, True, 1.5, "")
    limit_order_store.record_outcomes(connection, [outcome], 20.0)
    runs = limit_order_store.of_platforms(connection)[7]
    assert (runs.runs, runs.since_s) == (True, 20.0)
    for vms in ([6, 9], [], [3], [3]):
        runs = limit_order_store.set_vms(connection, runs, vms)
        assert runs.vms == tuple(vms)
        assert limit_order_store.of_platforms(connection)[7] == runs
        assert (runs.runs, runs.cost) == ((True, 1.5) if 9 in vms else (False, None))
        if not vms:  # the outcome of a period that had read the VMs before
            limit_order_store.record_outcomes(connection, [outcome], 30.0)
    assert count(connection) == (1, 1)


def test_a_vm_of_another_order_can_not_join(connection: sa.Connection) -> None:
    """The period is repeated, and finds the other order."""
    stored(connection, [5])
    with pytest.raises(LostRaceError):
        limit_order_store.set_vms(connection, of_platform(connection, 7), [5])


def test_a_saved_vm_keeps_its_mark_until_it_is_seen_in_another_state(
    connection: sa.Connection,
) -> None:
    """Also without an order, and in the next one; a row with neither mark nor order is deleted."""
    first = stored(connection, [1, 2, 3])
    update_saved(connection, stopped={1, 2, 9}, kept=set())
    assert saved_vms(connection) == {1, 2}
    limit_order_store.withdraw(connection, [first.id])
    update_saved(connection, stopped=set(), kept={1, 2, 3})
    assert saved_vms(connection) == {1, 2}
    assert limit_order_store.of_vms(connection, [1, 2, 3]) == {}
    second = stored(connection, [2, 4])
    assert limit_order_store.living(connection) == (second,)
    assert saved_vms(connection) == {1, 2}
    update_saved(connection, stopped=set(), kept={4})
    assert saved_vms(connection) == set()
    rows = connection.execute(sa.select(LIMIT_ORDER_VMS).order_by(LIMIT_ORDER_VMS.c.vm)).all()
    assert [tuple(row) for row in rows] == [(2, second.id, False), (4, second.id, False)]
