"""Members of platforms and groups, by the period's view of their VMs."""

import pytest

from merkatd.cluster import Terminate, VmState
from merkatd.database.fleets.member_table import FleetMember
from merkatd.fleets.fleet import FleetView, creation_key

VIEW = FleetView(
    period=7,
    at_s=420.0,
    interval_s=60.0,
    states={1: VmState.RUNNING, 2: VmState.BUSY, 3: VmState.ABSENT},
    ailing=frozenset({4}),
    creating=frozenset({"begun"}),
    deaf=frozenset({3}),
)


def member(vm: int | None, key: str = "k", *, leaving: bool = False) -> FleetMember:
    """Return a member."""
    return FleetMember(key=key, number=1, vm=vm, leaving=leaving)


@pytest.mark.parametrize(
    ("one", "gone"),
    [
        (member(1), False),
        (member(4), False),
        (member(5), True),
        (member(None), False),
        (member(None, leaving=True), True),
        (member(None, "begun", leaving=True), False),
    ],
)
def test_a_member_is_gone_when_its_vm_cannot_appear_any_more(one: FleetMember, gone: bool) -> None:
    """A VM whose creation is in progress may still appear, so its member stays."""
    assert VIEW.is_gone(one) is gone


def test_end_steps_exist_for_vms_that_can_end() -> None:
    """A VM with a step in progress or without observation gets none; a deaf guest ends hard."""
    steps = [VIEW.end_step(member(vm), "why") for vm in (None, 5, 2, 1, 3)]
    ends = [Terminate(period=7, vm=vm, reason="why", hard=vm == 3) for vm in (1, 3)]
    assert steps == [None, None, None, *ends]


def test_keys_depend_on_the_member_and_the_entropy() -> None:
    """The same member in the same period has the same key."""
    keys = {creation_key(said, key) for said in ("1/1", "1/2") for key in (b"a", b"b")}
    assert len(keys) == 4
    assert creation_key("1/1", b"a") in keys
