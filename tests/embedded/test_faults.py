"""What can be made to go wrong."""

from __future__ import annotations

import http.client
import socket
import time
import xmlrpc.client
from xml.parsers.expat import ExpatError

import pytest
from lxml import etree

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.memory_transport import ConnectionDropped, carried
from tests.embedded.process import remote
from tests.embedded.support import ADMIN, SMALL, Bench, xml


def test_a_refusal_does_nothing() -> None:
    """Its code and text are those asked for; the VM is not there."""
    bench = Bench()
    bench.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.allocate", code=512, text="no", count=1))
    assert bench.refused("one.vm.allocate", SMALL) == (512, "[one.vm.allocate] no")
    assert len(bench.cloud.world.vms) == 0
    bench.new()


def test_faults_strike_as_often_as_asked() -> None:
    """By count, by VM, by host, and by probability from the seeded generator."""
    bench = Bench()
    one, two = bench.running(), bench.running()
    bench.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.*", vm=one, count=2))
    outcomes = [bench.raw("one.vm.info", vm_id)[0] for vm_id in (one, two, one, one)]
    assert outcomes == [False, True, False, True]
    bench.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.migrate", host=2))
    assert bench.raw("one.vm.migrate", one, 2, True)[0] is False
    assert bench.raw("one.vm.migrate", one, 1, True)[0] is True
    bench.cloud.faults.clear()
    bench.cloud.faults.add(Fault(FaultKind.REFUSE, "one.hostpool.info", probability=0.3))
    struck = sum(not bench.raw("one.hostpool.info")[0] for _ in range(300))
    assert 60 < struck < 120


def test_a_lost_answer_leaves_the_work_done() -> None:
    """The caller sees a broken connection, the cloud has the VM."""
    bench = Bench()
    bench.cloud.faults.add(Fault(FaultKind.LOSE, "one.vm.allocate"))
    with pytest.raises(ConnectionDropped):
        bench.raw("one.vm.allocate", SMALL)
    assert len(bench.cloud.world.vms) == 1


def test_garbage_and_broken_texts() -> None:
    """Either the answer is no XML-RPC, or the pool inside it breaks off."""
    bench = Bench()
    number = bench.cloud.faults.add(Fault(FaultKind.GARBAGE, "one.hostpool.info"))
    with pytest.raises(xmlrpc.client.ResponseError):
        bench.raw("one.hostpool.info")
    assert bench.cloud.faults.remove(number)
    bench.cloud.faults.add(Fault(FaultKind.TRUNCATE, "one.hostpool.info"))
    with pytest.raises(etree.XMLSyntaxError):
        xml(bench.ok("one.hostpool.info"))


def test_a_delayed_answer_comes_later() -> None:
    """The work is done at once, the answer is there when the time has passed."""
    bench = Bench()
    bench.cloud.faults.add(Fault(FaultKind.DELAY, "one.vm.allocate", seconds=5))
    waiting = bench.transport.call("one.vm.allocate", ADMIN, SMALL)
    answered: list[object] = []
    deferred = waiting.send(None)
    assert len(bench.cloud.world.vms) == 1
    deferred.addCallback(answered.append)
    bench.advance(4.9)
    assert not answered
    bench.advance(0.2)
    assert answered
    with pytest.raises(StopIteration) as ended:
        waiting.send(None)
    assert ended.value.value == [True, 0, 0]


def test_a_hanging_server_does_nothing_and_says_nothing() -> None:
    """Not even after a long time."""
    bench = Bench()
    bench.cloud.faults.add(Fault(FaultKind.HANG))
    waiting = bench.transport.call("one.vm.allocate", ADMIN, SMALL)
    deferred = waiting.send(None)
    bench.advance(1e6)
    assert not deferred.called
    assert len(bench.cloud.world.vms) == 0
    waiting.close()


def test_a_dead_host_takes_its_guests_along() -> None:
    """ERROR and UNKNOWN; when it is back they are found powered off, still charged."""
    bench = Bench()
    vm_id = bench.running()
    bench.cloud.host_down(0)
    assert bench.state(vm_id) == (3, 16)
    assert xml(bench.ok("one.host.info", 0)).findtext("STATE") == "3"
    assert bench.cloud.guests.read() == {}
    bench.cloud.host_up(0)
    assert bench.state(vm_id) == (8, 0)
    assert bench.charged() == {0: (100, 512, 1)}


def test_a_host_that_is_only_cut_off_keeps_its_guests() -> None:
    """They are UNKNOWN while they go on, and RUNNING afterwards."""
    bench = Bench()
    vm_id = bench.running()
    before = bench.cloud.guests.read()[vm_id].cpu_s
    bench.ok("embedded.host.down", 0, False)
    bench.advance(10)
    assert bench.state(vm_id) == (3, 16)
    bench.ok("embedded.host.up", 0)
    assert bench.state(vm_id) == (3, 3)
    assert bench.cloud.guests.read()[vm_id].cpu_s - before == pytest.approx(10)


def test_operations_on_a_dead_host_fail() -> None:
    """A deployment to it ends in a state of failure, a migration to it back where it was."""
    bench = Bench()
    vm_id, fresh = bench.running(), bench.new()
    bench.cloud.host_down(1)
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.ok("one.vm.deploy", fresh, 1)
    bench.advance(10)
    assert bench.state(vm_id) == (3, 3)
    assert bench.vm(vm_id).history[-1].host == 0
    assert bench.state(fresh) == (3, 39)


@pytest.mark.parametrize("live", [True, False])
def test_a_migration_from_a_host_that_dies_fails(*, live: bool) -> None:
    """The VM is lost where it was, and the target released."""
    bench = Bench()
    vm_id = bench.running()
    bench.ok("one.vm.migrate", vm_id, 1, live)
    bench.cloud.host_down(0)
    bench.advance(10)
    assert bench.state(vm_id) == (3, 16)
    assert bench.charged() == {0: (100, 512, 1)}
    bench.cloud.host_up(0)
    assert bench.state(vm_id) == (8, 0)


def test_a_lying_pool_shows_what_was() -> None:
    """For the time asked for, in both pools, while the VM itself has moved on."""
    bench = Bench()
    vm_id = bench.running()
    before = bench.ok("one.vmpool.infoextended", -2, -1, -1, -1)
    assert bench.ok("embedded.fault.lie", "vm", -1, 60) == 1
    bench.ok("one.vm.action", "poweroff", vm_id)
    bench.advance(10)
    assert bench.ok("one.vmpool.infoextended", -2, -1, -1, -1) == before
    assert xml(bench.ok("one.vm.info", vm_id)).findtext("STATE") == "8"
    bench.advance(60)
    assert bench.ok("one.vmpool.infoextended", -2, -1, -1, -1) != before


def test_faults_are_ordered_remotely() -> None:
    """Added, listed, removed and cleared by calls that faults never strike themselves."""
    bench = Bench()
    number = bench.ok("embedded.fault.add", {"kind": "refuse", "method": "one.*", "count": 5})
    assert bench.refused("one.system.version")[0] == 8192
    listed = bench.ok("embedded.fault.list")
    assert listed[str(number)]["kind"] == "refuse"
    assert bench.ok("embedded.fault.remove", number) is True
    assert bench.ok("embedded.fault.remove", number) is False
    bench.ok("embedded.fault.add", {"kind": "hang"})
    assert bench.ok("embedded.fault.clear") == 1
    for wrong in ({"kind": "melt"}, {"kind": "hang", "colour": 1}, {"kind": "hang", "vm": "x"}, 7):
        assert bench.refused("embedded.fault.add", wrong)[0] == 4096


@pytest.mark.parametrize(
    ("value", "error"),
    [(None, TypeError), (2**31, OverflowError), ("\x01", ValueError), (object(), TypeError)],
)
def test_the_memory_transport_carries_what_xmlrpc_carries(
    value: object, error: type[Exception]
) -> None:
    """What the socket couldn't send is refused here too, and nothing is shared."""
    bench = Bench()
    with pytest.raises(error):
        bench.raw("one.vm.allocate", value)
    rows = {"a": [1, "x\r\ny"]}
    copy = carried(rows)
    assert copy == {"a": [1, "x\ny"]}


def test_the_memory_transport_raises_the_sockets_faults() -> None:
    """Unknown methods and wrong types."""
    bench = Bench()
    for method, arguments, code in (("one.no", (), -506), ("one.vm.info", ("0",), -501)):
        with pytest.raises(xmlrpc.client.Fault) as raised:
            bench.raw(method, *arguments)
        assert raised.value.faultCode == code


def test_faults_on_the_socket() -> None:
    """Each kind as a client sees it; those that follow are answered well."""
    with remote("--hosts", "1") as cloud:
        seen: dict[str, type[Exception]] = {
            "lose": http.client.RemoteDisconnected,
            "garbage": ExpatError,
        }
        for kind, error in seen.items():
            # A client of the standard library tries a lost call once more by itself.
            count = 2 if kind == "lose" else 1
            cloud.ok("embedded.fault.add", {"kind": kind, "count": count})
            with pytest.raises(error):
                cloud.raw("one.vm.allocate", SMALL)
        assert len(xml(cloud.ok("one.vmpool.info", -2, -1, -1, -1))) == 3
        cloud.ok("embedded.fault.add", {"kind": "truncate", "count": 1})
        with pytest.raises(etree.XMLSyntaxError):
            xml(cloud.ok("one.vmpool.info", -2, -1, -1, -1))
        cloud.ok("embedded.fault.add", {"kind": "delay", "seconds": 0.3, "count": 1})
        begun = time.monotonic()
        cloud.ok("one.system.version")
        assert time.monotonic() - begun >= 0.3
        cloud.ok("embedded.fault.add", {"kind": "hang", "count": 1})
        with socket.create_connection(cloud.endpoint.split("/")[2].split(":")) as line:  # type: ignore[arg-type]  # host and port
            body = xmlrpc.client.dumps((ADMIN,), "one.system.version").encode()
            head = f"POST /RPC2 HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            line.sendall(head.encode() + body)
            line.settimeout(0.3)
            with pytest.raises(TimeoutError):
                line.recv(1)
        assert cloud.ok("one.system.version")
        assert cloud.terminate() == 0


def test_two_delays_of_a_call_add_up() -> None:
    """A call that two faults delay takes both times."""
    bench = Bench()
    for seconds in (2, 3):
        bench.cloud.faults.add(Fault(FaultKind.DELAY, "one.vm.allocate", seconds=seconds))
    deferred = bench.transport.call("one.vm.allocate", ADMIN, SMALL).send(None)
    answered: list[object] = []
    deferred.addCallback(answered.append)
    bench.advance(4.9)
    assert not answered
    bench.advance(0.2)
    assert answered
