"""VMs with long texts: the numbers of their records show which of them may have run."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from merkatd.opennebula.pools.unread_vms import read_record
from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.ports import NO_RECORD, UNKNOWN, GuestRecord
from merkatd.scheduler.charging.charged_time import _HIDDEN_OF_AN_OWNER as FEW
from merkatd.scheduler.observation.guest_starts import _Guests, _started
from merkatd.scheduler.observation.looks import (
    Look,
    look_back,
    look_of,
    never_ran,
    records_column,
)
from merkatd.scheduler.observation.running_time import Starts, lacking, seconds_run, starts
from tests.long_texts import TOO_LONG, lower_limit
from tests.scheduler.frontend import PAPER_MARKET, QUICK, Frontend

VM = 7
HEAD = (
    "<VM_POOL><VM><ID>7</ID><UID>2</UID><GID>1</GID><UNAME>eve</UNAME><GNAME>users</GNAME>"
    "<NAME>v</NAME><LAST_POLL>0</LAST_POLL><STATE>8</STATE><LCM_STATE>0</LCM_STATE>"
    "<RESCHED>0</RESCHED><STIME>100</STIME><ETIME>0</ETIME><DEPLOY_ID></DEPLOY_ID>"
    "<TEMPLATE><CPU>1</CPU><MEMORY>128</MEMORY><VCPU>1</VCPU></TEMPLATE>"
)
FORGED = (
    "<HISTORY_RECORDS><HISTORY><OID>7</OID><SEQ>99</SEQ></HISTORY></HISTORY_RECORDS></VM></VM_POOL>"
)


def looked(at_s: float, *, runs: bool, number: int, shown: bool = False) -> Look:
    """Return a look at one VM, with its record or with the record's number alone."""
    record = GuestRecord(number, 100, 200)
    return Look(
        at_s,
        np.array([VM]),
        np.array([runs]),
        LastRecords.of({VM: record} if shown else {}),
        {} if shown else {VM: number},
    )


@pytest.mark.parametrize(
    ("ran", "old", "runs", "new", "asked"),
    [
        (False, 3, False, 3, False),
        (False, -1, False, -1, False),
        (True, 3, True, 3, False),
        (True, 3, True, 5, False),
        (False, 3, False, 4, True),
        (False, 3, True, 4, True),
        (False, 3, True, 3, True),
        (True, 3, False, 3, True),
        (False, UNKNOWN, False, UNKNOWN, True),
    ],
)
def test_no_history_is_requested_for_a_vm_that_rested(
    *, ran: bool, old: int, runs: bool, new: int, asked: bool
) -> None:
    """Nor for one that ran at both looks; without a history all others count as running."""
    before, now = looked(1_000, runs=ran, number=old), looked(1_060, runs=runs, number=new)
    assert lacking(before, now, np.array([True])) == [VM] * asked
    rests = not (asked or ran)
    assert seconds_run(before, now, {}).tolist() == [0 if rests else 60]
    # Its owner may have resized it.
    unknown = Starts(60.0) if runs else Starts(0.0, (60.0,))
    expected = {} if rests or ran else {0: unknown._replace(resized=True)}
    assert starts(before, now, {}) == expected


def test_a_readable_history_decides() -> None:
    """The history overrides the estimate from the numbers."""
    before, now = looked(1_000, runs=False, number=0), looked(1_060, runs=False, number=1)
    history = {VM: [GuestRecord(0, 100, 200), GuestRecord(1, 1_010, 1_040)]}
    assert seconds_run(before, now, history).tolist() == [30]
    assert starts(before, now, history) == {0: Starts(0.0, (30.0,))}


def test_a_text_that_becomes_long_while_the_vm_is_off_costs_nothing() -> None:
    """The number is that of the earlier record."""
    before = looked(1_000, runs=False, number=3, shown=True)
    assert lacking(before, looked(1_060, runs=False, number=3), np.array([True])) == []
    changed = looked(1_060, runs=False, number=4)
    assert seconds_run(before, changed, {}).tolist() == [60]


def test_a_text_that_becomes_readable_shows_no_earlier_runs() -> None:
    """Without its history, the VM may have run all the time."""
    before = looked(1_000, runs=False, number=UNKNOWN)
    now = looked(1_060, runs=False, number=3, shown=True)
    assert lacking(before, now, np.array([True])) == [VM]
    assert seconds_run(before, now, {}).tolist() == [60]


def test_a_stored_look_is_the_look_of_the_observation(site: Frontend) -> None:
    """Of a VM with too long texts it has the number; records of ended VMs change no other's."""
    hidden, shown = (site.vm() for _ in range(2))
    seen = site.periods(2).seen.observation
    old = GuestRecord(9, 100, 200)
    seen = replace(
        seen,
        by_record={hidden: "long"},
        ailing={99: "it is unreadable"},
        ended=dict.fromkeys([hidden, shown, 77, 99], old),
    )
    runs = np.ones(2, dtype=bool)
    look = look_of(seen, runs)
    arrays: dict[str, Any] = {"vm": seen.vm_id, "runs": runs, **records_column(seen)}
    stored = look_back(arrays, seen.at_s)
    assert look is not None
    assert stored is not None
    assert look.hidden == {99: UNKNOWN, **stored.hidden}
    assert stored.hidden == {hidden: 0}
    assert list(look.records) == [shown, 77]
    assert list(stored.records) == [shown]
    assert look.records[shown] == stored.records[shown] != old
    assert never_ran(arrays).tolist() == [False, False]
    arrays["record"][seen.vm_id == hidden, 1] = NO_RECORD.seq
    assert never_ran(arrays).tolist() == (seen.vm_id == hidden).tolist()


NUMBER = GuestRecord(3)
"""A last record of which only the number is known."""
WHOLE = GuestRecord(3, 100, 200)


@pytest.mark.parametrize(
    ("old", "new", "hidden", "started"),
    [
        (NUMBER, NUMBER, (True, True), False),
        (NUMBER, GuestRecord(4), (True, True), True),
        (GuestRecord(UNKNOWN), GuestRecord(UNKNOWN), (True, True), True),
        (NUMBER, WHOLE, (True, False), False),
        (WHOLE, NUMBER, (False, True), False),
        (WHOLE, GuestRecord(4), (False, True), True),
        (WHOLE, WHOLE, (False, False), False),
    ],
)
def test_the_number_of_a_record_shows_whether_a_guest_ran_in_between(
    old: GuestRecord, new: GuestRecord, hidden: tuple[bool, bool], *, started: bool
) -> None:
    """The VM is off at both looks, and unreadable at some; an unknown number may be another."""
    none = np.zeros(0, dtype=np.int64)
    before, now = (
        _Guests(none, none, none, none, {VM: (2, record)}, {VM} if is_hidden else set())
        for record, is_hidden in zip((old, new), hidden, strict=True)
    )
    observed: Any = SimpleNamespace(
        snapshot=SimpleNamespace(vms=SimpleNamespace(id=np.array([VM]), owner=np.array([2]))),
        histories={},
    )
    assert list(_started(observed, before, now)) == [(2, VM, False)] * started


@pytest.mark.parametrize(
    ("end", "number"),
    [
        ("<HISTORY_RECORDS><HISTORY><OID>7</OID><SEQ>4</SEQ><HOSTNAME>a</HOSTNAME><HID>3</HID>", 4),
        ("<HISTORY_RECORDS/></VM></VM_POOL>", -1),
        ("<HISTORY_RECORDS><HISTORY><OID>7</OID><SEQ>x</SEQ>", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_the_end_of_an_outline_contains_the_number(end: str, number: int) -> None:
    """The owner's text before it doesn't matter."""
    closed = end and not end.endswith("POOL>")
    pool_end = end + "<ACTION>0</ACTION></HISTORY></HISTORY_RECORDS></VM></VM_POOL>" * bool(closed)
    text = f"<USER_TEMPLATE><A>]]>{FORGED}</A></USER_TEMPLATE>{pool_end}" if end else ""
    row = read_record(HEAD, VM, "it is long", None, text)
    assert row is not None
    assert row.record.seq == number


@pytest.fixture
def site() -> Iterator[Frontend]:
    """Return a cloud for one tenant's VMs with texts that no period reads."""
    made = Frontend(hosts=4)
    made.world_settings = {"markets": (PAPER_MARKET,), "rhythm": replace(QUICK, interval_s=60)}
    made.start_daemon()
    yield made
    made.close()


def count_histories_read(site: Frontend, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many VM histories the next period requests."""
    asked, real = [], site.client.vm

    async def vm(number: int) -> str:
        asked.append(number)
        return await real(number)

    with monkeypatch.context() as patched:
        patched.setattr(site.client, "vm", vm)
        site.period()
    return len(asked)


def test_few_histories_of_an_owner_are_read(
    site: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The period reads none of VMs at rest, and a few of VMs that ran meanwhile."""
    vms = [site.vm(VCPU=1, MEMORY=128) for _ in range(FEW + 3)]
    site.periods(3)
    act = partial(site.bench.ok, "one.vm.action")
    for vm in vms:
        site.bench.ok("one.vm.update", vm, f'LONG="{TOO_LONG}"', 1)
        act("poweroff-hard", vm)
    with lower_limit():
        site.clock.advance(10)
        site.periods(2)
        assert count_histories_read(site, monkeypatch) == 0
        for action in ("resume", "poweroff-hard"):
            for vm in vms:
                act(action, vm)
            site.clock.advance(10)
        assert count_histories_read(site, monkeypatch) == FEW
        assert count_histories_read(site, monkeypatch) == 0
