"""After any fault callers get the outcome or its absence, and later calls succeed."""

from collections.abc import Callable

import pytest

from merkatd.cluster import Step
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.scheduler.base.ports import CloudUnreachableError, ReplyKind
from tests.opennebula.worlds import ADMIN, SMALL, World, create, deploy

LOST = ["lose", "garbage", "hang"]
"""Faults that leave it unknown whether a call was executed."""


@pytest.fixture
def hasty(world: World) -> World:
    """Return the same world with short timeouts."""
    world.adapter = world.cloud(world.login(ADMIN, timeout_s=1.5, attempts=1))
    return world


@pytest.mark.parametrize("kind", [*LOST, "truncate", "refuse", "delay"])
@pytest.mark.parametrize(
    "method", ["one.vmpool.infoextended", "one.hostpool.info", "one.hostpool.monitoring"]
)
def test_an_unreadable_pool_fails_the_observation(hasty: World, kind: str, method: str) -> None:
    """The observation fails as a whole, and the next one is complete."""
    vm = hasty.new()
    hasty.fault(kind, method, seconds=2.0)
    with pytest.raises(CloudUnreachableError):
        hasty.observe()
    hasty.clear_faults()
    hasty.wait(1)
    assert hasty.observe().vm_id.tolist() == [vm]


@pytest.mark.parametrize("kind", [*LOST, "delay"])
def test_an_unanswered_step_has_an_unknown_outcome(hasty: World, kind: str) -> None:
    """The next observation shows whether it was executed."""
    vm = hasty.new()
    hasty.fault(kind, "one.vm.deploy", seconds=2.0)
    with pytest.raises(CloudUnreachableError, match=r"one\.vm\.deploy of VM 0 on host 1"):
        hasty.send(deploy(vm, 1))
    hasty.clear_faults()
    hasty.wait()
    assert hasty.words(vm) == ("PENDING" if kind == "hang" else "RUNNING")


@pytest.mark.parametrize("kind", [*LOST, "truncate"])
def test_an_unanswered_check_sends_nothing(hasty: World, kind: str) -> None:
    """No step follows it."""
    vm = hasty.new()
    hasty.fault(kind, "one.vm.info")
    with pytest.raises(CloudUnreachableError):
        hasty.send(deploy(vm, 1))
    assert hasty.transport.count()["one.vm.deploy"] == 0


@pytest.mark.parametrize("kind", [*LOST, "delay", "refuse"])
@pytest.mark.parametrize("seen_before", [True, False])
def test_a_creation_is_never_doubled(hasty: World, kind: str, *, seen_before: bool) -> None:
    """After a lost answer, the repeated creation finds its VM."""
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
    hasty.clear_faults()
    hasty.wait(1)
    made = {hasty.send(create("k")).vm for _ in range(3)}
    assert len(made) == 1
    assert len(hasty.observe().vm_id) == before + 1


def test_a_creation_whose_login_hangs_is_retried(hasty: World) -> None:
    """Without the owner's token no VM is created, and the next attempt creates it."""
    ann = hasty.call("one.user.allocate", "ann", "pw")
    hasty.fault("hang", "one.user.login", count=1)
    with pytest.raises(CloudUnreachableError):
        hasty.send(create("k", owner=ann))
    assert hasty.observe().vm_owner.tolist() == []
    assert hasty.send(create("k", owner=ann)).answer is ReplyKind.ACCEPTED
    assert hasty.observe().vm_owner.tolist() == [ann]


def test_a_rejection_of_the_server_is_reported(world: World) -> None:
    """Its text is unchanged."""
    vm = world.new()
    world.fault("refuse", "one.vm.deploy", code=8192, text="disk on fire")
    reply = world.send(deploy(vm, 0))
    assert reply.answer is ReplyKind.REFUSED
    assert reply.why == "one.vm.deploy of VM 0 on host 0: disk on fire (code 8192)"


def test_a_wrong_password_is_reported(world: World) -> None:
    """Reading pools raises only `CloudUnreachableError`."""
    cloud = world.cloud(world.login("oneadmin:wrong"))
    with pytest.raises(CloudUnreachableError, match=r"authenticated.*\(code 256\)"):
        world.run(cloud.observe())


def test_a_slow_answer_is_accepted(world: World) -> None:
    """It is accepted within the timeout."""
    world.fault("delay", "one.hostpool.info", seconds=0.2, count=1)
    assert len(world.observe().host_id) == 3


def test_an_unanswered_message_is_retried(hasty: World) -> None:
    """The caller gets the error, and the next attempt is made."""
    vm = hasty.new(SMALL)
    hasty.observe()
    hasty.fault("lose", "one.vm.update", count=1)
    with pytest.raises(CloudUnreachableError):
        hasty.run(hasty.adapter.tell(vm, "hello"))
    hasty.run(hasty.adapter.tell(vm, "hello"))
    assert hasty.transport.count()["one.vm.update"] == 2


@pytest.mark.parametrize("kind", ["lose", "garbage", "refuse"])
def test_reading_continues_if_every_call_fails_once(world: World, kind: str) -> None:
    """Lost connections are retried, and the server's own rejections are not."""
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
def test_possibly_executed_calls_are_never_repeated(
    world: World, method: str, step: Callable[[int, int], Step] | None
) -> None:
    """This holds for every way in which the answer is lost."""
    vm = world.new()
    world.transport.forget()
    for kind in LOST[:2]:
        world.fault(kind, method, count=1)
    with pytest.raises(CloudUnreachableError):
        world.send(create("k") if step is None else step(vm, 1))
    assert world.transport.count()[method] == 1


def test_a_server_that_restarts_between_pages_is_handled(http_world: World) -> None:
    """Connections and version may change, and the pool is read to its end."""
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
