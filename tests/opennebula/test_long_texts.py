"""VMs with too long or invalid texts are charged and limited, and others are not affected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from merkatd.base.deferreds import in_parallel
from merkatd.cluster import Migrate, Step, Suspend, Terminate, VmState
from merkatd.opennebula.pools.unread_vms import TEXT_BACKOFF
from merkatd.opennebula.pools.vm_pool import LONG, MOST_TAGS
from merkatd.scheduler.base.ports import ReplyKind, StepReply
from tests.opennebula.worlds import SMALL, World, in_memory

if TYPE_CHECKING:
    from merkatd.scheduler.base.ports import Observation

BIG = f'CPU=2\nVCPU=4\nMEMORY=1024\nMERKAT_BID_CPU=7\nNOTE="{"x" * (LONG + 1)}"\n'


@pytest.fixture
def world() -> World:
    """Return a world with some VMs, the fourth with a long text."""
    made = in_memory()
    for number in range(6):
        made.running(number % 3, BIG if number == 3 else SMALL)
    return made


def adapter(world: World, vms_bytes: int) -> Any:
    """Return an adapter with this limit for texts of VMs."""
    return world.cloud(world.login("oneadmin:secret", vms_bytes=vms_bytes))


def row(seen: Observation, vm: int) -> tuple[float, ...]:
    """Return host, state, reservation and size of a VM."""
    at = seen.vm_id.tolist().index(vm)
    return (
        int(seen.vm_host[at]),
        int(seen.vm_state[at]),
        *seen.vm_reserved[at].tolist(),
        *seen.vm_size[at].tolist(),
    )


def test_a_too_long_vm_is_known_by_opennebulas_record(world: World) -> None:
    """Owner, host, state and sizes suffice for charging and limiting."""
    unbounded = world.observe()
    seen = world.run(adapter(world, LONG // 2).observe())
    assert np.array_equal(seen.vm_id, np.arange(6))
    for vm in range(6):
        assert row(seen, vm) == row(unbounded, vm)
    assert seen.vm_owner.tolist() == unbounded.vm_owner.tolist()
    assert list(seen.by_record) == [3]
    assert seen.ailing == {}
    assert 3 not in seen.attributes


def test_the_next_periods_read_around_it(world: World) -> None:
    """No long text is requested until its pause is over."""
    cloud = adapter(world, LONG // 2)
    world.run(cloud.observe())
    world.transport.forget()
    seen = world.run(cloud.observe())
    assert np.array_equal(seen.vm_id, np.arange(6))
    asked = [rest for method, rest in world.transport.calls if method == "one.vmpool.infoextended"]
    assert [rest[1:3] for rest in asked if rest[3] == -1] == [(0, 2), (4, -1)]
    world.wait(TEXT_BACKOFF.first_s + 1)
    world.transport.forget()
    world.run(cloud.observe())
    ranges = [rest[1:3] for method, rest in world.transport.calls if "extended" in method]
    assert (3, 3) in ranges


def test_a_text_that_was_read_counts_during_its_pause(world: World) -> None:
    """It is not read each time although a page may contain it, and its bid stays."""
    cloud = adapter(world, 1 << 25)
    first = world.run(cloud.observe())
    assert first.attributes[3]["MERKAT_BID_CPU"] == "7"
    assert not first.by_record
    world.call("one.vm.action", "suspend", 3)
    world.wait()
    seen = world.run(cloud.observe())
    assert seen.attributes[3]["MERKAT_BID_CPU"] == "7"
    assert row(seen, 3)[:2] == (0, int(VmState.SUSPENDED))


def test_a_text_that_became_short_is_read_like_all_others(world: World) -> None:
    """This happens after its pause; a removed VM is dropped at once."""
    cloud = adapter(world, LONG // 2)
    world.run(cloud.observe())
    world.call("one.vm.update", 3, 'MERKAT_BID_CPU="9"', 0)
    world.wait(TEXT_BACKOFF.first_s + 1)
    seen = world.run(cloud.observe())
    assert seen.attributes[3]["MERKAT_BID_CPU"] == "9"
    assert not seen.by_record
    world.call("one.vm.update", 3, BIG, 0)
    world.run(cloud.observe())
    world.call("one.vm.recover", 3, 3)
    world.wait()
    seen = world.run(cloud.observe())
    assert 3 not in seen.vm_id
    assert 3 not in seen.by_record


def test_one_that_ends_between_two_observations_at_once_disturbs_neither(world: World) -> None:
    """An administrator's command observes the cloud during a period, and is done first."""
    cloud = adapter(world, LONG // 2)
    world.run(cloud.observe())
    world.call("one.vm.recover", 3, 3)
    world.wait()
    world.fault("delay", "one.vmpool.infoextended", seconds=2.0, count=1)
    for seen in world.run(in_parallel([cloud.observe(), cloud.observe()])):
        assert seen.vm_id.tolist() == [0, 1, 2, 4, 5]


@pytest.mark.parametrize("vms_bytes", [LONG // 2, 400, 4 * LONG])
def test_steps_reach_an_unread_vm(world: World, vms_bytes: int) -> None:
    """No text keeps a VM on a drained host, or running without payment.

    With 400 bytes even the outline is too long: then the source host says that the VM is there.
    With four MiB the text can be read, but parsing it would take long.
    """
    bounded = adapter(world, vms_bytes)
    world.transport.forget()

    def sent(step: Step) -> ReplyKind:
        reply: StepReply = world.run(bounded.send(step))
        return reply.answer

    def moved(source: int) -> ReplyKind:
        return sent(Migrate(period=2, vm=3, reason="", source=source, host=2))

    assert moved(1) is ReplyKind.LOOK_AGAIN
    assert moved(0) is ReplyKind.ACCEPTED
    world.wait()
    assert sent(Suspend(period=2, vm=3, reason="")) is ReplyKind.ACCEPTED
    assert sent(Suspend(period=2, vm=3, reason="")) is ReplyKind.LOOK_AGAIN
    world.wait()
    assert sent(Terminate(period=2, vm=3, reason="")) is ReplyKind.ACCEPTED
    counted = world.transport.count()
    assert counted["one.vmpool.info"] == counted["one.vm.info"] > 0


def test_an_unread_pending_vm_is_not_placed(world: World) -> None:
    """Its place is unknown."""
    world.new(BIG)
    seen = world.run(adapter(world, LONG // 2).observe())
    assert row(seen, 6)[:2] == (-1, int(VmState.ABSENT))


@pytest.mark.parametrize("damage", ["<A>", "</VM>", "&", "</VM><VM><ID>1</ID><UID>9</UID><A>"])
def test_a_text_with_invalid_xml_affects_only_itself(world: World, damage: str) -> None:
    """A text that looks like another VM's start changes no other VM."""
    unbounded = world.observe()

    def damaged(method: str, answer: Any) -> Any:
        if "extended" not in method or "<ID>3</ID>" not in answer[1]:
            return answer
        begin = answer[1].index("<NOTE>", answer[1].index("<ID>3</ID>"))
        return [True, answer[1][:begin] + damage + answer[1][begin:], 0]

    world.transport.after = damaged
    seen = world.run(world.cloud().observe())
    assert np.array_equal(seen.vm_id, np.arange(6))
    for vm in range(6):
        assert row(seen, vm) == row(unbounded, vm)
    assert seen.vm_owner.tolist() == unbounded.vm_owner.tolist()
    assert list(seen.by_record) == [3]


def test_many_long_texts_are_found(world: World) -> None:
    """Each is found by bisection, and the VMs in between are read completely."""
    for number in range(40):
        world.new(BIG if number % 5 == 0 else SMALL)
    cloud = adapter(world, LONG // 2)
    seen = world.run(cloud.observe())
    assert np.array_equal(seen.vm_id, np.arange(46))
    assert sorted(seen.by_record) == [3, *range(6, 46, 5)]
    world.transport.forget()
    world.run(cloud.observe())
    assert len(world.transport.calls) < 60


def test_a_text_with_very_many_tags_is_not_parsed(world: World) -> None:
    """It is treated like a long text until its pause is over."""
    unbounded = world.observe()
    many = "".join(f'A{number}="1"\n' for number in range(MOST_TAGS // 2))
    world.call("one.vm.update", 3, many, 1)
    cloud = world.cloud()
    seen = world.run(cloud.observe())
    assert [row(seen, vm) for vm in range(6)] == [row(unbounded, vm) for vm in range(6)]
    assert list(seen.by_record) == [3]
    assert "tags" in seen.by_record[3]
    world.transport.forget()
    world.run(cloud.observe())
    asked = [rest for method, rest in world.transport.calls if method == "one.vmpool.infoextended"]
    assert [rest[1:3] for rest in asked if rest[3] == -1] == [(0, 2), (4, -1)]


def test_all_texts_of_an_owner_have_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's longest texts are left out, and no other owner's."""
    monkeypatch.setattr("merkatd.opennebula.pools.unread_vms.MOST_OF_AN_OWNER", 100_000)
    eve = world.call("one.user.allocate", "eve", "secret", "core")
    mine = [world.new(f'{SMALL}\nNOTE="{"x" * size}"') for size in (40_000, 45_000, 48_000, 50_000)]
    for vm in mine:
        world.call("one.vm.chown", vm, eve, -1)
    other = world.new(f'{SMALL}\nNOTE="{"x" * 60_000}"')
    cloud = world.cloud()
    world.run(cloud.observe())
    seen = world.run(cloud.observe())
    assert sorted(seen.by_record) == [3, *mine[2:]]
    assert other not in seen.by_record
    assert "texts of its owner's VMs" in seen.by_record[mine[2]]


def test_ended_vms_with_very_many_tags_are_not_parsed_either(world: World) -> None:
    """They are left out of the ended VMs."""
    many = "".join(f'A{number}="1"\n' for number in range(MOST_TAGS // 2))
    world.call("one.vm.update", 3, many, 1)
    for vm in (2, 3):
        world.call("one.vm.recover", vm, 3)
    world.wait()
    assert list(world.observe().ended) == [2]
