"""Scheduled actions on old servers: when they are due, and their records afterwards."""

import asyncio
import calendar
from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.base.quantities import LATEST_S
from merkatd.opennebula.rpc.errors import WrongStateError
from merkatd.opennebula.scheduled_actions import (
    Action,
    Scheduled,
    call,
    done,
    due_actions,
    failed,
    run_due_actions,
    template,
)

DAY, HOUR = 86_400, 3_600
NOW = float(calendar.timegm((2023, 3, 15, 12, 0, 0)))
"""A Wednesday."""


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.localtime", __import__("time").gmtime)


def due_names(*actions: Action, started_s: float = NOW - DAY) -> list[str]:
    """Return the names of the actions that are due now."""
    return [action.name for action in due_actions(actions, NOW, started_s)]


def suspend(**parts: str) -> dict[str, str]:
    """Return an action that was due a minute ago."""
    return {"ID": "0", "ACTION": "suspend", "TIME": str(int(NOW) - 60), **parts}


@pytest.mark.parametrize(
    ("action", "is_due"),
    [
        (suspend(), True),
        (suspend(TIME=str(int(NOW) + 1)), False),
        (suspend(TIME=f"+{DAY - 60}"), True),
        (suspend(TIME=f"+{DAY + 60}"), False),
        (suspend(DONE=str(int(NOW) - 30)), False),
        (suspend(DONE=str(int(NOW) - 90)), True),
        (suspend(TIME="soon"), False),
        (suspend(TIME="12.5"), False),
        (suspend(ACTION=""), False),
    ],
)
def test_an_action_is_due_once_after_its_time(action: Action, is_due: bool) -> None:
    """The time is in seconds since the epoch, or since the creation of the VM."""
    assert due_names(action) == (["suspend"] if is_due else [])


def test_the_longest_waiting_action_and_one_backup_are_due() -> None:
    """A VM has one action at a time, and backups wait for none."""
    late = suspend(ACTION="RESUME", TIME=str(int(NOW) - 90))
    backups = [
        suspend(ACTION="backup", ARGS=str(copies), TIME=str(int(NOW) - copies)) for copies in (5, 9)
    ]
    actions = due_actions([suspend(), late, *backups], NOW, 0)
    assert [(action.name, action.arguments) for action in actions] == [
        ("resume", ()),
        ("backup", ("9",)),
    ]


def test_a_done_action_is_not_due_again() -> None:
    """Its time is recorded, and an old message is removed."""
    after = done(suspend(MESSAGE="x"), NOW, 0)
    assert after == suspend(DONE=str(int(NOW)))
    assert due_names(after) == []


def test_a_failed_action_is_retried() -> None:
    """Its message has the reason."""
    after = failed(suspend(), NOW, "no such VM")
    assert after["MESSAGE"] == "Wed Mar 15 12:00:00 2023 : no such VM"
    assert due_names(after) == ["suspend"]


@pytest.mark.parametrize(
    ("repeat", "days", "after_days"),
    [
        ("0", "3", 7),  # Wednesday again
        ("0", "1,3,5", 2),  # Friday
        ("0", "0,1", 4),  # Sunday
        ("1", "15", 31),
        ("1", "1,20", 5),
        ("1", "1", 17),  # the first of April
        ("2", "73", 365),
        ("2", "80", 7),
        ("3", "5", 5 / 24),
    ],
)
def test_a_repeated_action_gets_its_next_time(repeat: str, days: str, after_days: float) -> None:
    """Days are weekly, monthly or yearly, and hours are hourly."""
    before = suspend(REPEAT=repeat, DAYS=days, END_TYPE="0")
    after = done(before, NOW, 0)
    assert int(after["TIME"]) - int(before["TIME"]) == after_days * DAY
    assert due_names(after) == []
    later = float(after["TIME"]) + 1
    assert [action.name for action in due_actions([after], later, 0)] == ["suspend"]


def test_an_action_may_repeat_a_number_of_times() -> None:
    """Each run counts down to the last one."""
    action: Action = suspend(REPEAT="3", DAYS="1", END_TYPE="1", END_VALUE="2")
    now, runs = NOW, 0
    for _ in range(10):
        if due_actions([action], now, 0):
            action, runs = done(action, now, 0), runs + 1
        now += HOUR
    assert runs == 3  # the first, and two more


def test_an_action_may_repeat_until_a_date() -> None:
    """After it there is no next time."""
    action: Action = suspend(REPEAT="3", DAYS="1", END_TYPE="2", END_VALUE=str(int(NOW) + 2 * HOUR))
    now, runs = NOW, 0
    for _ in range(10):
        if due_actions([action], now, 0):
            action, runs = done(action, now, 0), runs + 1
        now += HOUR
    assert runs == 4


def test_an_overdue_action_runs_once() -> None:
    """It does not run once for each missed time."""
    action = suspend(REPEAT="3", DAYS="1", END_TYPE="0", TIME=str(int(NOW) - 5 * DAY - 60))
    after = done(action, NOW, 0)
    assert NOW < int(after["TIME"]) <= NOW + HOUR


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("poweroff-hard", "", ("one.vm.action", ("poweroff-hard", 7))),
        ("snapshot-create", "nightly", ("one.vm.snapshotcreate", (7, "nightly"))),
        ("disk-snapshot-create", "0,a", ("one.vm.disksnapshotcreate", (7, 0, "a"))),
        ("backup", "100", ("one.vm.backup", (7, 100))),
    ],
)
def test_an_action_becomes_a_call(name: str, arguments: str, expected: object) -> None:
    """It has oned's method and arguments."""
    (action,) = due_actions([suspend(ACTION=name, ARGS=arguments)], NOW, 0)
    assert call(action, 7) == expected


@pytest.mark.parametrize(("name", "arguments"), [("fly", ""), ("backup", ""), ("backup", "x")])
def test_an_invalid_action_is_an_error(name: str, arguments: str) -> None:
    """The error belongs to that action."""
    (action,) = due_actions([suspend(ACTION=name, ARGS=arguments)], NOW, 0)
    with pytest.raises(ValueError, match=r"not an action|needs|invalid literal"):
        call(action, 7)


def test_times_are_limited() -> None:
    """A time beyond all bounds is never due, and no such time is recorded."""
    assert due_names(suspend(TIME="9" * 18)) == []
    assert due_names(suspend(TIME="+" + "9" * 18)) == []
    far = suspend(TIME="-" + "9" * 17, REPEAT="3", DAYS="9" * 17, END_TYPE="0")
    assert float(done(far, NOW, 0)["TIME"]) <= LATEST_S


def test_an_unknown_actions_name_is_safe_for_logs() -> None:
    """It is short and on one line, whatever a tenant writes."""
    (action,) = due_actions([suspend(ACTION="\n\x1b[2J\u202e" * 9_000)], NOW, 0)
    assert action.name.isprintable()
    assert action.name.isascii()
    assert len(action.name) < 250
    with pytest.raises(ValueError, match="is not an action") as refused:
        call(action, 1)
    assert str(refused.value).isprintable()


def test_the_template_is_xml() -> None:
    """Special characters are escaped."""
    assert template({"ARGS": "a<b"}) == (
        "<TEMPLATE><SCHED_ACTION><ARGS>a&lt;b</ARGS></SCHED_ACTION></TEMPLATE>"
    )


@given(
    st.dictionaries(
        st.sampled_from(
            ["TIME", "DONE", "REPEAT", "DAYS", "END_TYPE", "END_VALUE", "ID", "ACTION"]
        ),
        st.text(alphabet="+-0123,x ", max_size=12),
    )
)
def test_any_values_are_handled(action: dict[str, str]) -> None:
    """The action is due or not, and afterwards it is not due at the same time."""
    for due in due_actions([action], NOW, 0):
        assert not due_actions([done(due.action, NOW, 0)], NOW, 0)


@pytest.mark.parametrize(
    ("time", "repeat", "days"),
    [
        ("-9999999999999", "0", "1"),
        ("-99999999999999999", "3", "1"),
        ("1", "2", ",".join(["1"] * 20_000)),
    ],
)
def test_an_old_action_costs_no_more_than_others(time: str, repeat: str, days: str) -> None:
    """This holds for any age and any number of days, and it still catches up."""
    action = suspend(TIME=time, REPEAT=repeat, DAYS=days, END_TYPE="0")
    began = process_time()
    after = done(action, NOW, NOW - DAY)
    assert process_time() - began < 0.1
    assert int(after["TIME"]) > NOW


class Refusing:
    """A client of an old server that refuses all actions."""

    def __init__(self) -> None:
        self.vms: set[int] = set()
        """The VMs whose actions were called."""

    async def dialect(self) -> Any:
        """Return the properties of the old server."""
        return SimpleNamespace(runs_scheduled_actions=False)

    async def call(self, method: str, *arguments: Any, about: str) -> None:
        """Refuse an action, and accept its result."""
        if method == "one.vm.action":
            self.vms.add(arguments[1])
            raise WrongStateError(method, about, "wrong state", 2048)


def test_one_owners_refused_actions_delay_no_other_owner() -> None:
    """Owners take turns in each period, and so do the actions of each owner."""
    many = [Scheduled(vm, 2, 0.0, (suspend(),)) for vm in range(1000)]
    scheduled = Scheduled(1000, 3, 0.0, (suspend(),))
    ran = set[int]()
    for minute in range(10):
        client: Any = Refusing()
        asyncio.run(run_due_actions(client, [*many, scheduled], NOW + 60 * minute))
        assert len(client.vms) == 200
        assert 1000 in client.vms
        ran |= client.vms
    assert ran == set(range(1001))
