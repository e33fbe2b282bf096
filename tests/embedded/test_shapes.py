"""Answers on the socket have the structure of a real server's recorded answers."""

from __future__ import annotations

import threading
import xmlrpc.client
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lxml import etree

from tests.embedded.process import Remote, remote

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).parent / "recorded"
FREE = frozenset({"TEMPLATE", "USER_TEMPLATE", "PCI_DEVICES"})
"""Elements with arbitrary content."""
SIMULATED = frozenset({"MERKAT_ENERGY_WH"})
"""Values of the simulation, which hosts report like those of a site's own probe."""


@pytest.fixture(scope="module")
def cloud() -> Iterator[Remote]:
    """Yield a cloud with VMs in the states of the recordings."""
    with remote("--hosts", "4", "--speed", "50") as running:
        for number in range(4):
            vcpu = "VCPU=2" if number else ""
            extra = 'SCHED_REQUIREMENTS="ID=4"' if number == 1 else "ONLY=x"
            running.ok("one.vm.allocate", f"CPU=1 MEMORY=512 {vcpu} {extra}")
        for vm_id in (0, 1, 2):
            running.ok("one.vm.deploy", vm_id, vm_id)
            running.until_state(vm_id, "3", "3")
        running.ok("one.vm.migrate", 0, 3, True)
        running.until_on(0, 3)
        running.ok("one.vm.action", "poweroff-hard", 2)
        running.until_state(2, "8")
        running.ok("one.host.update", 0, "RESERVED_CPU=200", 1)
        yield running


def element_orders(root: etree._Element) -> dict[str, set[tuple[str, ...]]]:
    """Return the orders of children for each kind of element, without repetitions."""
    orders: dict[str, set[tuple[str, ...]]] = {}

    def walk(element: etree._Element, path: str) -> None:
        if element.tag in FREE:
            return
        tags = [str(child.tag) for child in element if child.tag not in SIMULATED]
        once = tuple(tag for place, tag in enumerate(tags) if tags[:place].count(tag) == 0)
        if once:
            orders.setdefault(path, set()).add(once)
        for child in element:
            walk(child, f"{path}/{child.tag}")

    walk(root, str(root.tag))
    return orders


POOLS = [
    ("vmpool_info", ("one.vmpool.info", -2, -1, -1, -1)),
    ("vmpool_infoextended", ("one.vmpool.infoextended", -2, -1, -1, -1)),
    ("vm_running", ("one.vm.info", 0)),
    ("hostpool_info", ("one.hostpool.info",)),
    ("host2", ("one.host.info", 0)),
    ("datastorepool_info", ("one.datastorepool.info",)),
    ("clusterpool_info", ("one.clusterpool.info",)),
    ("userpool_info", ("one.userpool.info",)),
    ("grouppool_info", ("one.grouppool.info",)),
    ("acl_info", ("one.acl.info",)),
]


@pytest.mark.parametrize(("name", "call"), POOLS)
def test_elements_and_their_order_match_the_recordings(
    cloud: Remote, name: str, call: tuple[object, ...]
) -> None:
    """Every element in both has the same children in the same order."""
    recorded = element_orders(etree.parse(RECORDED / f"{name}.xml").getroot())
    ours = element_orders(etree.fromstring(cloud.ok(str(call[0]), *call[1:]).encode()))
    assert set(ours) == set(recorded)
    for path, order in recorded.items():
        assert order <= ours[path] or ours[path] <= order, path


def test_the_default_rules_match_the_recordings(cloud: Remote) -> None:
    """Numbers, texts and order of the access control list are equal."""
    recorded = (RECORDED / "acl_info.xml").read_text()
    assert cloud.ok("one.acl.info") == recorded


def test_vm_templates_have_oneds_added_attributes(cloud: Remote) -> None:
    """A running VM has the attributes of a recorded one."""
    recorded = etree.parse(RECORDED / "vm_running.xml").getroot()
    ours = etree.fromstring(cloud.ok("one.vm.info", 0).encode())

    def names(root: etree._Element) -> list[str]:
        return [str(item.tag) for item in root.iterfind("TEMPLATE/*")]

    assert names(ours) == names(recorded)


def test_failures_have_five_elements(cloud: Remote) -> None:
    """Text and fourth element name the missing object."""
    assert cloud.raw("one.vm.deploy", 99, 0) == [
        False, "[one.vm.deploy] Error getting virtual machine [99].", 1024, 99, -1,
    ]  # fmt: skip
    assert cloud.raw("one.vm.deploy", 3, 99) == [
        False, "[one.vm.deploy] Error getting host [99].", 1024, 99, -1,
    ]  # fmt: skip
    assert cloud.raw("one.vm.deploy", 3, 0, False, 99) == [
        False, "[one.vm.deploy] Error getting datastore [99].", 1024, 99, -1,
    ]  # fmt: skip
    text = "Trying to use datastore [1] to deploy the VM, but it is not of type system datastore."
    assert cloud.raw("one.vm.deploy", 3, 0, False, 1) == [
        False, f"[one.vm.deploy] {text}", 8192, -1, -1,
    ]  # fmt: skip
    assert cloud.raw("one.vm.info", 0, session="x:y")[2] == 256


@pytest.mark.parametrize(
    ("method", "arguments", "code"),
    [
        ("one.vm.fly", (), -506),
        ("system.listMethods", (), -506),
        ("one.vm.info", (), -501),
        ("one.vm.info", ("0",), -501),
        ("one.vm.info", (True,), -501),
        ("one.vm.info", (1.0,), -501),
        ("one.vm.deploy", (0, 0, 1), -501),
        ("one.vm.action", (0, "suspend"), -501),
        ("one.vm.migrate", (0, 1), -501),
    ],
)
def test_unknown_methods_and_wrong_types_are_faults(
    cloud: Remote, method: str, arguments: tuple[object, ...], code: int
) -> None:
    """They have the codes -506 and -501, before the password is checked."""
    with pytest.raises(xmlrpc.client.Fault) as raised:
        cloud.raw(method, *arguments, session="no:body")
    assert raised.value.faultCode == code


def test_invalid_calls_are_faults(cloud: Remote) -> None:
    """Broken XML and a call without a session are answered too."""
    import http.client  # noqa: PLC0415 - for this test alone

    host = cloud.endpoint.split("/")[2]
    connection = http.client.HTTPConnection(host)
    for body in (b"<methodCall>", b"", b"<a/>", b"<methodResponse><fault/></methodResponse>"):
        connection.request("POST", "/RPC2", body)
        answer = connection.getresponse().read()
        with pytest.raises(xmlrpc.client.Fault):
            xmlrpc.client.loads(answer)
    connection.close()
    with xmlrpc.client.ServerProxy(cloud.endpoint) as proxy, pytest.raises(xmlrpc.client.Fault):
        proxy.one.vm.info()


def test_older_forms_of_calls_work(cloud: Remote) -> None:
    """Deploy and migrate accept the few arguments of old servers, and all of the new ones."""
    vm_id = cloud.ok("one.vm.allocate", "CPU=1 MEMORY=64")
    cloud.ok("one.vm.deploy", vm_id, 0)
    cloud.until_state(vm_id, "3", "3")
    cloud.ok("one.vm.migrate", vm_id, 1, True)
    cloud.until_on(vm_id, 1)
    cloud.ok("one.vm.migrate", vm_id, 2, False, False, 0, 2)
    cloud.until_on(vm_id, 2)
    cloud.ok("one.vm.action", "terminate-hard", vm_id)
    cloud.until_state(vm_id, "6")


def test_the_server_reports_itself(cloud: Remote) -> None:
    """Version, configuration and leadership are available."""
    assert cloud.ok("one.system.version").startswith("6.10")
    assert "<API_LIST_ORDER>" in cloud.ok("one.system.config")
    assert "<STATE>0</STATE>" in cloud.ok("one.zone.raftstatus")


def test_names_keep_all_characters(cloud: Remote) -> None:
    """Markup, quotes and non-ASCII letters survive in names and templates."""
    vm_id = cloud.ok("one.vm.allocate", 'CPU=1 MEMORY=64 NAME="a(b),é" TEXT="] <x> & \\"q\\" 漢"')
    shown = etree.fromstring(cloud.ok("one.vm.info", vm_id).encode())
    assert shown.findtext("NAME") == "a(b),é"
    assert shown.findtext("USER_TEMPLATE/TEXT") == '] <x> & "q" 漢'
    pool = etree.fromstring(cloud.ok("one.vmpool.infoextended", -2, vm_id, vm_id, -1).encode())
    assert pool.findtext("VM/NAME") == "a(b),é"
    cloud.ok("one.vm.action", "terminate", vm_id)


def test_concurrent_clients_get_different_ids(cloud: Remote) -> None:
    """Twenty threads each create and remove a VM, and each id is used once."""
    given: list[int] = []

    def client() -> None:
        with xmlrpc.client.ServerProxy(cloud.endpoint) as proxy:
            answer = proxy.one.vm.allocate("oneadmin:secret", "CPU=1 MEMORY=64")
            assert isinstance(answer, list)
            given.append(answer[1])
            proxy.one.vm.action("oneadmin:secret", "terminate", answer[1])

    threads = [threading.Thread(target=client) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(given)) == 20
