"""Injected faults of the embedded cloud."""

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


def test_a_refusal_has_no_effect() -> None:
    """It returns the requested code and text, and no VM is created."""
    bench = Bench()
    bench.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.allocate", code=512, text="no", count=1))
    assert bench.refused("one.vm.allocate", SMALL) == (512, "[one.vm.allocate] no")
    assert len(bench.cloud.world.vms) == 0
    bench.new()


def test_faults_apply_as_often_as_requested() -> None:
    """They are selected by count, VM, host, and probability from the seeded generator."""
    bench = Bench()
    first, two = bench.running(), bench.running()
    bench.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.*", vm=first, count=2))
    outcomes = [bench.raw("one.vm.info", vm_id)[0] for vm_id in (first, two, first, first)]
    assert outcomes == [False, True, False, True]
    bench.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.migrate", host=2))
    assert bench.raw("one.vm.migrate", first, 2, True)[0] is False
    assert bench.raw("one.vm.migrate", first, 1, True)[0] is True
    bench.cloud.faults.clear()
    bench.cloud.faults.add(Fault(FaultKind.REFUSE, "one.hostpool.info", probability=0.3))
    struck = sum(not bench.raw("one.hostpool.info")[0] for _ in range(300))
    assert 60 < struck < 120


def test_a_lost_answer_keeps_the_effect() -> None:
    """The caller gets a broken connection, and the cloud has the VM."""
    bench = Bench()
    bench.cloud.faults.add(Fault(FaultKind.LOSE, "one.vm.allocate"))
    with pytest.raises(ConnectionDropped):
        bench.raw("one.vm.allocate", SMALL)
    assert len(bench.cloud.world.vms) == 1


def test_garbage_and_truncated_texts_are_injected() -> None:
    """The answer is invalid XML-RPC, or the pool in it ends early."""
    bench = Bench()
    number = bench.cloud.faults.add(Fault(FaultKind.GARBAGE, "one.hostpool.info"))
    with pytest.raises(xmlrpc.client.ResponseError):
        bench.raw("one.hostpool.info")
    assert bench.cloud.faults.remove(number)
    bench.cloud.faults.add(Fault(FaultKind.TRUNCATE, "one.hostpool.info"))
    with pytest.raises(etree.XMLSyntaxError):
        xml(bench.ok("one.hostpool.info"))


def test_a_delayed_answer_comes_later() -> None:
    """The call takes effect at once, and its answer comes after the delay."""
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


def test_a_hanging_server_never_answers() -> None:
    """Also after a long time, the call has no effect and no answer."""
    bench = Bench()
    bench.cloud.faults.add(Fault(FaultKind.HANG))
    waiting = bench.transport.call("one.vm.allocate", ADMIN, SMALL)
    deferred = waiting.send(None)
    bench.advance(1e6)
    assert not deferred.called
    assert len(bench.cloud.world.vms) == 0
    waiting.close()


def test_guests_of_a_dead_host_are_off_when_it_returns() -> None:
    """They are UNKNOWN while the host is in ERROR, and still allocated as powered off later."""
    bench = Bench()
    vm_id = bench.running()
    bench.cloud.host_down(0)
    assert bench.state(vm_id) == (3, 16)
    assert xml(bench.ok("one.host.info", 0)).findtext("STATE") == "3"
    assert bench.cloud.guests.read() == {}
    bench.cloud.host_up(0)
    assert bench.state(vm_id) == (8, 0)
    assert bench.charged() == {0: (100, 512, 1)}


def test_a_disconnected_host_keeps_its_guests() -> None:
    """They are UNKNOWN while they run, and RUNNING afterwards."""
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
    """A deployment ends in a state of failure, and a migration returns to the source."""
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
def test_a_migration_from_a_dying_host_fails(*, live: bool) -> None:
    """The VM is lost on its source, and the target is released."""
    bench = Bench()
    vm_id = bench.running()
    bench.ok("one.vm.migrate", vm_id, 1, live)
    bench.cloud.host_down(0)
    bench.advance(10)
    assert bench.state(vm_id) == (3, 16)
    assert bench.charged() == {0: (100, 512, 1)}
    bench.cloud.host_up(0)
    assert bench.state(vm_id) == (8, 0)


def test_a_stale_pool_shows_the_earlier_state() -> None:
    """For the requested time both pools are outdated, and the VM's own record is current."""
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


def test_faults_are_controlled_by_calls() -> None:
    """The calls that add, list, remove and clear faults never fail by faults themselves."""
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
def test_the_memory_transport_rejects_what_xmlrpc_cannot_carry(
    value: object, error: type[Exception]
) -> None:
    """It raises the socket's errors, and values are copied."""
    bench = Bench()
    with pytest.raises(error):
        bench.raw("one.vm.allocate", value)
    rows = {"a": [1, "x\r\ny"]}
    copy = carried(rows)
    assert copy == {"a": [1, "x\ny"]}


def test_the_memory_transport_raises_the_sockets_faults() -> None:
    """Unknown methods and wrong types have the codes of the socket."""
    bench = Bench()
    for method, arguments, code in (("one.no", (), -506), ("one.vm.info", ("0",), -501)):
        with pytest.raises(xmlrpc.client.Fault) as raised:
            bench.raw(method, *arguments)
        assert raised.value.faultCode == code


def test_faults_appear_on_the_socket() -> None:
    """A client sees each kind of fault, and later calls succeed."""
    with remote("--hosts", "1") as cloud:
        seen: dict[str, type[Exception]] = {
            "lose": http.client.RemoteDisconnected,
            "garbage": ExpatError,
        }
        for kind, error in seen.items():
            # The standard library's client repeats a lost call once by itself.
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


def test_delays_of_several_faults_add_up() -> None:
    """A call that two faults delay takes the sum of both times."""
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
