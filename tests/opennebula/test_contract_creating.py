"""VMs that we create, and messages that owners see: alike on each server."""

from typing import Any

import pytest

from merkatd.scheduler.base.ports import CloudUnreachableError, ReplyKind
from tests.opennebula.worlds import SMALL, World, create


def test_the_same_creation_makes_one_vm(world: World) -> None:
    """Before and after an observation, and where there has been none."""
    first = world.send(create("k1"))
    assert world.send(create("k1")).vm == first.vm
    world.observe()
    assert world.send(create("k1")).vm == first.vm
    second = world.send(create("k2"))
    assert second.vm != first.vm
    assert world.send(create("k2")).vm == second.vm
    world.one = world.cloud()
    assert world.send(create("k2")).vm == second.vm
    assert world.observe().keys == {"k1": first.vm, "k2": second.vm}
    assert len(world.observe().vm_id) == 2


def test_newer_vms_are_read_once_for_many_creations(world: World) -> None:
    """Reading them for each would cost the square of their number."""
    world.observe()
    world.send(create("k0"))
    world.transport.forget()
    for number in range(1, 6):
        world.send(create(f"k{number}"))
    assert not [method for method in world.transport.count() if "vmpool" in method]
    assert world.send(create("k3")).why == "the VM exists already"


def test_a_creation_without_an_answer_is_looked_for(world: World) -> None:
    """It may have made its VM all the same."""
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


def test_a_creation_whose_vm_is_done_is_not_repeated(world: World) -> None:
    """Whoever ended it."""
    world.observe()
    made = world.send(create("k"))
    assert made.vm is not None
    world.call("one.vm.action", "terminate", made.vm)
    assert world.send(create("k")).vm == made.vm
    assert world.observe().keys == {"k": made.vm}
    assert world.send(create("k")).vm == made.vm


def test_a_created_vm_belongs_to_its_owner(world: World) -> None:
    """And to the owner's group; also where an earlier attempt ended before that."""
    ann = world.call("one.user.allocate", "ann", "pw", "core", [1])
    made = world.send(create("k", owner=ann))
    seen = world.observe()
    assert (seen.vm_owner.tolist(), seen.vm_group.tolist()) == ([ann], [1])
    assert made.vm is not None
    world.call("one.vm.chown", made.vm, 0, 0)
    assert world.send(create("k", owner=ann)).vm == made.vm
    assert world.observe().vm_owner.tolist() == [ann]


def test_nothing_is_made_for_an_owner_who_is_not_there(world: World) -> None:
    """The refusal names the user."""
    reply = world.send(create("k", owner=4711))
    assert reply.answer is ReplyKind.REFUSED
    assert "user 4711" in reply.why
    assert world.observe().vm_id.tolist() == []


def test_templates_of_both_forms_take_the_key(world: World) -> None:
    """OpenNebula's own syntax and XML."""
    xml = "<TEMPLATE><CPU>1</CPU><MEMORY>64</MEMORY></TEMPLATE>"
    one, two = world.send(create("a", xml)), world.send(create("b", "CPU=1 MEMORY=64"))
    assert world.observe().keys == {"a": one.vm, "b": two.vm}


def test_a_copied_key_does_not_move(world: World) -> None:
    """A user may instantiate what was ours: the first VM is the one."""
    made = world.send(create("k"))
    world.new(SMALL + 'MERKAT_KEY="k"')
    assert world.observe().keys == {"k": made.vm}


def test_a_wrong_template_is_refused(world: World) -> None:
    """With oned's text."""
    reply = world.send(create("k", "MEMORY=64"))
    assert reply.answer is ReplyKind.REFUSED
    assert "CPU attribute must be" in reply.why


def test_messages_are_shown_once(world: World) -> None:
    """Whatever characters they have; the same one is not sent again, an empty one clears it."""
    vm = world.new()
    message = 'no host has "4 cores" & <8 GiB> [free]\\ \n= wait'
    world.observe()
    world.transport.forget()
    world.run(world.one.tell(vm, ""))
    assert not world.transport.calls
    for _ in range(2):
        world.run(world.one.tell(vm, message))
    world.observe()
    world.run(world.one.tell(vm, message))
    assert world.transport.count()["one.vm.update"] == 1
    assert world.run(world.client.vm(vm)).count("4 cores") == 1
    world.run(world.one.tell(vm, ""))
    world.observe()
    world.run(world.one.tell(vm, ""))
    assert world.transport.count()["one.vm.update"] == 2


def test_nobody_minds_a_message_to_nobody(world: World) -> None:
    """The VM is gone: there is nobody to tell."""
    world.run(world.one.tell(99, "hello"))
