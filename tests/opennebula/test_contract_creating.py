"""Creations and messages are the same on each server."""

from typing import Any

import pytest

from merkatd.scheduler.base.ports import CloudUnreachableError, ReplyKind
from tests.opennebula.worlds import SMALL, World, create


def test_a_repeated_creation_makes_one_vm(world: World) -> None:
    """This holds before and after an observation, and without any."""
    first = world.send(create("k1"))
    assert world.send(create("k1")).vm == first.vm
    world.observe()
    assert world.send(create("k1")).vm == first.vm
    second = world.send(create("k2"))
    assert second.vm != first.vm
    assert world.send(create("k2")).vm == second.vm
    world.adapter = world.cloud()
    assert world.send(create("k2")).vm == second.vm
    assert world.observe().keys == {("k1", 0): first.vm, ("k2", 0): second.vm}
    assert len(world.observe().vm_id) == 2


def test_newer_vms_are_read_once_for_many_creations(world: World) -> None:
    """Reading them for each creation would take quadratic time.

    Their owner is read once too: its texts may have any length.
    """
    world.observe()
    world.send(create("k0"))
    world.transport.forget()
    for number in range(1, 6):
        world.send(create(f"k{number}"))
    assert not [method for method in world.transport.count() if "vmpool" in method]
    assert ("one.user.info", (0,)) not in world.transport.calls
    assert world.send(create("k3")).why == "the VM exists already"


def test_a_creation_without_an_answer_is_searched(world: World) -> None:
    """It may have created its VM nevertheless."""
    world.observe()
    world.send(create("k0"))

    def lost(method: str, answer: list[Any]) -> list[Any]:
        if method == "one.vm.allocate":
            raise CloudUnreachableError("the answer is lost")
        return answer

    kept, world.transport.after = world.transport.after, lost
    with pytest.raises(CloudUnreachableError):
        world.send(create("k1"))
    world.transport.after = kept
    assert world.send(create("k1")).why == "the VM exists already"
    assert len(world.observe().vm_id) == 2


def test_a_creation_whose_vm_has_ended_is_not_repeated(world: World) -> None:
    """The cause of its end does not matter."""
    world.observe()
    made = world.send(create("k"))
    assert made.vm is not None
    world.call("one.vm.action", "terminate", made.vm)
    assert world.send(create("k")).vm == made.vm
    assert world.observe().keys == {("k", 0): made.vm}
    assert world.send(create("k")).vm == made.vm


def test_a_created_vm_belongs_to_its_owner(world: World) -> None:
    """It also has the owner's group, after an interrupted attempt too."""
    ann = world.call("one.user.allocate", "ann", "pw", "core", [1])
    made = world.send(create("k", owner=ann))
    seen = world.observe()
    assert (seen.vm_owner.tolist(), seen.vm_group.tolist()) == ([ann], [1])
    assert made.vm is not None
    world.call("one.vm.chown", made.vm, 0, 0)
    assert world.send(create("k", owner=ann)).vm == made.vm
    assert world.observe().vm_owner.tolist() == [ann]


def test_nothing_is_created_for_a_missing_owner(world: World) -> None:
    """The rejection names the user."""
    reply = world.send(create("k", owner=4711))
    assert reply.answer is ReplyKind.REFUSED
    assert "user 4711" in reply.why
    assert world.observe().vm_id.tolist() == []


def test_templates_of_both_forms_get_the_key(world: World) -> None:
    """These are OpenNebula's own syntax and XML."""
    xml = "<TEMPLATE><CPU>1</CPU><MEMORY>64</MEMORY></TEMPLATE>"
    first, second = world.send(create("a", xml)), world.send(create("b", "CPU=1 MEMORY=64"))
    assert world.observe().keys == {("a", 0): first.vm, ("b", 0): second.vm}


def test_a_copied_key_stays_with_the_first_vm(world: World) -> None:
    """A user may instantiate a template that contains the key."""
    made = world.send(create("k"))
    world.new(SMALL + 'MERKAT_KEY="k"')
    assert world.observe().keys == {("k", 0): made.vm}


def test_a_key_in_another_user_s_vm_is_no_creation(world: World) -> None:
    """The daemon may do everything, and would give that VM to the owner of the key."""
    ann = world.call("one.user.allocate", "ann", "pw", "core", [1])
    bob = world.call("one.user.allocate", "bob", "pw", "core", [1])
    foreign = world.new(SMALL + 'MERKAT_KEY="k"')
    world.call("one.vm.chown", foreign, bob, 1)
    world.observe()
    made = world.send(create("k", owner=ann))
    assert made.vm not in {None, foreign}
    seen = world.observe()
    assert dict(zip(seen.vm_id.tolist(), seen.vm_owner.tolist(), strict=True)) == {
        foreign: bob,
        made.vm: ann,
    }
    assert seen.keys == {("k", bob): foreign, ("k", ann): made.vm}


def test_an_invalid_template_is_rejected(world: World) -> None:
    """The rejection has oned's text."""
    reply = world.send(create("k", "MEMORY=64"))
    assert reply.answer is ReplyKind.REFUSED
    assert "CPU attribute must be" in reply.why


def test_messages_are_sent_once(world: World) -> None:
    """Any characters work; the same message is not repeated, and an empty one clears it."""
    vm = world.new()
    message = 'no host has "4 cores" & <8 GiB> [free]\\ \n= wait'
    world.observe()
    world.transport.forget()
    world.run(world.adapter.tell(vm, ""))
    assert not world.transport.calls
    for _ in range(2):
        world.run(world.adapter.tell(vm, message))
    world.observe()
    world.run(world.adapter.tell(vm, message))
    assert world.transport.count()["one.vm.update"] == 1
    assert world.run(world.client.vm(vm)).count("4 cores") == 1
    world.run(world.adapter.tell(vm, ""))
    world.observe()
    world.run(world.adapter.tell(vm, ""))
    assert world.transport.count()["one.vm.update"] == 2


def test_a_message_to_a_removed_vm_is_dropped(world: World) -> None:
    """No error is raised."""
    world.run(world.adapter.tell(99, "hello"))
