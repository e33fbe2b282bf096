"""Whatever the server does, callers learn what is known; and afterwards all is well again."""

from collections.abc import Callable

import pytest

from merkatd.cluster import Step
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.scheduler.base.ports import CloudUnreachableError, ReplyKind
from tests.opennebula.worlds import ADMIN, SMALL, World, create, deploy

LOST = ["lose", "garbage", "hang"]
"""Faults after which nobody knows whether a call was done."""


@pytest.fixture
def hasty(world: World) -> World:
    """The same with little patience."""
    world.one = world.cloud(world.login(ADMIN, timeout_s=1.5, attempts=1))
    return world


@pytest.mark.parametrize("kind", [*LOST, "truncate", "refuse", "delay"])
@pytest.mark.parametrize(
    "method", ["one.vmpool.infoextended", "one.hostpool.info", "one.hostpool.monitoring"]
)
def test_a_pool_that_can_not_be_read(hasty: World, kind: str, method: str) -> None:
    """The observation fails as a whole, and the next is whole."""
    vm = hasty.new()
    hasty.fault(kind, method, seconds=2.0)
    with pytest.raises(CloudUnreachableError):
        hasty.observe()
    hasty.mend()
    hasty.wait(1)
    assert hasty.observe().vm_id.tolist() == [vm]


@pytest.mark.parametrize("kind", [*LOST, "delay"])
def test_a_step_that_nobody_answers(hasty: World, kind: str) -> None:
    """It may have been done or not: the next observation tells."""
    vm = hasty.new()
    hasty.fault(kind, "one.vm.deploy", seconds=2.0)
    with pytest.raises(CloudUnreachableError, match=r"one\.vm\.deploy of VM 0 on host 1"):
        hasty.send(deploy(vm, 1))
    hasty.mend()
    hasty.wait()
    assert hasty.words(vm) == ("PENDING" if kind == "hang" else "RUNNING")


@pytest.mark.parametrize("kind", [*LOST, "truncate"])
def test_a_look_that_nobody_answers(hasty: World, kind: str) -> None:
    """Nothing is sent after it."""
    vm = hasty.new()
    hasty.fault(kind, "one.vm.info")
    with pytest.raises(CloudUnreachableError):
        hasty.send(deploy(vm, 1))
    assert hasty.transport.count()["one.vm.deploy"] == 0


@pytest.mark.parametrize("kind", [*LOST, "delay", "refuse"])
@pytest.mark.parametrize("seen_before", [True, False])
def test_a_creation_never_doubles(hasty: World, kind: str, *, seen_before: bool) -> None:
    """The answer to it was lost; repeated, it finds what it made."""
    if seen_before:
        hasty.new()
        hasty.observe()
    before = len(hasty.observe().vm_id) if seen_before else 0
    hasty.fault(kind, "one.vm.allocate", seconds=2.0)
    if kind == "refuse":
        assert hasty.send(create("k")).answer is ReplyKind.REFUSED
    else:
        with pytest.raises(CloudUnreachableError):
            hasty.send(create("k"))
    hasty.mend()
    hasty.wait(1)
    made = {hasty.send(create("k")).vm for _ in range(3)}
    assert len(made) == 1
    assert len(hasty.observe().vm_id) == before + 1


def test_a_creation_whose_login_hangs(hasty: World) -> None:
    """Without a login token of its owner no VM is made; the next attempt makes it."""
    ann = hasty.call("one.user.allocate", "ann", "pw")
    hasty.fault("hang", "one.user.login", count=1)
    with pytest.raises(CloudUnreachableError):
        hasty.send(create("k", owner=ann))
    assert hasty.observe().vm_owner.tolist() == []
    assert hasty.send(create("k", owner=ann)).answer is ReplyKind.ACCEPTED
    assert hasty.observe().vm_owner.tolist() == [ann]


def test_a_refusal_of_the_server_itself(world: World) -> None:
    """It is told as it was said."""
    vm = world.new()
    world.fault("refuse", "one.vm.deploy", code=8192, text="disk on fire")
    reply = world.send(deploy(vm, 0))
    assert reply.answer is ReplyKind.REFUSED
    assert reply.why == "one.vm.deploy of VM 0 on host 0: disk on fire (code 8192)"


def test_a_wrong_password_is_told(world: World) -> None:
    """Where pools are read there is no other error than that nothing is known."""
    cloud = world.cloud(world.login("oneadmin:wrong"))
    with pytest.raises(CloudUnreachableError, match=r"authenticated.*\(code 256\)"):
        world.run(cloud.observe())


def test_a_slow_answer_comes_through(world: World) -> None:
    """As long as there is patience."""
    world.fault("delay", "one.hostpool.info", seconds=0.2, count=1)
    assert len(world.observe().host_id) == 3


def test_a_message_that_nobody_answers(hasty: World) -> None:
    """The caller learns it, and the next attempt is made."""
    vm = hasty.new(SMALL)
    hasty.observe()
    hasty.fault("lose", "one.vm.update", count=1)
    with pytest.raises(CloudUnreachableError):
        hasty.run(hasty.one.tell(vm, "hello"))
    hasty.run(hasty.one.tell(vm, "hello"))
    assert hasty.transport.count()["one.vm.update"] == 2


@pytest.mark.parametrize("kind", ["lose", "garbage", "refuse"])
def test_reading_goes_on_where_every_call_fails_once(world: World, kind: str) -> None:
    """A way that is lost is taken again; what the server itself refuses is not asked twice."""
    vm = world.new()
    methods = ["one.vmpool.infoextended", "one.hostpool.info", "one.hostpool.monitoring",
               "one.datastorepool.info", "one.userpool.info", "one.acl.info"]  # fmt: skip
    for method in methods:
        world.fault(kind, method, count=1)
    if kind == "refuse":
        with pytest.raises(CloudUnreachableError, match="Injected fault"):
            world.observe()
    else:
        world.transport.forget()
        assert world.observe().vm_id.tolist() == [vm]
        assert all(world.transport.count()[method] >= 2 for method in methods)


@pytest.mark.parametrize(("method", "step"), [("one.vm.deploy", deploy), ("one.vm.allocate", None)])
def test_what_may_have_been_done_is_never_sent_twice(
    world: World, method: str, step: Callable[[int, int], Step] | None
) -> None:
    """However the answer was lost."""
    vm = world.new()
    world.transport.forget()
    for kind in LOST[:2]:
        world.fault(kind, method, count=1)
    with pytest.raises(CloudUnreachableError):
        world.send(create("k") if step is None else step(vm, 1))
    assert world.transport.count()[method] == 1


def test_a_server_that_starts_anew_between_two_pages(http_world: World) -> None:
    """Connections are gone and its version may be another: the pool is read to its end."""
    for _ in range(250):
        assert http_world.embedded.call("one.vm.allocate", [ADMIN, SMALL]).success
    cloud = http_world.cloud(page_rows=100)
    http_world.run(cloud.observe())
    http_world.transport.forget()

    def lose(method: str, number: int) -> None:
        if method == "one.vmpool.infoextended" and number == 3:
            http_world.embedded.faults.add(Fault(FaultKind.LOSE, method, count=2))

    http_world.transport.before = lose
    seen = http_world.run(cloud.observe())
    assert len(seen.vm_id) == 250
    assert http_world.transport.count()["one.system.version"] >= 1
