"""Any bytes are a page or a Merkat error; a bad element affects no other."""

from __future__ import annotations

import xmlrpc.client
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from merkatd.opennebula.observation_builder import Pools, observed
from merkatd.opennebula.pools.estate_pools import (
    read_clusters,
    read_datastores,
    read_groups,
    read_networks,
    read_rules,
    read_users,
    read_vm_groups,
)
from merkatd.opennebula.pools.host_pool import read_samples
from merkatd.opennebula.pools.vm_pool import read_page
from merkatd.opennebula.rpc.http_reply import NoReplyError, decoded
from merkatd.opennebula.rpc.xml_elements import BrokenError
from tests.lengths import shorten
from tests.opennebula.host_rows import read_hosts

RECORDED = Path(__file__).parents[1] / "embedded" / "recorded"
VM_POOL = (RECORDED / "vmpool_infoextended.xml").read_text()
HOST_POOL = (RECORDED / "hostpool_info.xml").read_text()

SAMPLES = "<MONITORING_DATA><MONITORING><ID>1</ID></MONITORING></MONITORING_DATA>"

READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "vms": (read_page, VM_POOL),
    "hosts": (read_hosts, HOST_POOL),
    "samples": (read_samples, SAMPLES),
    "datastores": (read_datastores, (RECORDED / "datastorepool_info.xml").read_text()),
    "clusters": (read_clusters, (RECORDED / "clusterpool_info.xml").read_text()),
    "users": (read_users, (RECORDED / "userpool_info.xml").read_text()),
    "groups": (read_groups, (RECORDED / "grouppool_info.xml").read_text()),
    "rules": (read_rules, (RECORDED / "acl_info.xml").read_text()),
    "networks": (read_networks, "<VNET_POOL><VNET><ID>1</ID><NAME>a</NAME></VNET></VNET_POOL>"),
    "VM groups": (read_vm_groups, "<VM_GROUP_POOL><VM_GROUP><ID>1</ID></VM_GROUP></VM_GROUP_POOL>"),
}  # fmt: skip
WORDS = st.sampled_from(
    ["", "-1", "0", "7", "x", "1e999", "nan", "9" * 30, "٣", " 5 ", "YES", "\u2028", "]]>", "-" * 5]
)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=shorten(300, 25))
@given(data=st.data())
def test_any_text_is_read_or_rejected(name: str, data: st.DataObject) -> None:
    """Garbage alone and garbage inside of a pool are covered."""
    read, pool = READERS[name]
    nonsense = data.draw(st.text(max_size=30) | st.text("<>/&;![]CDATAVMIDHOST 12", max_size=40))
    start = data.draw(st.integers(0, len(pool)))
    length = data.draw(st.integers(0, 20))
    for text in (nonsense, pool[:start] + nonsense + pool[start + length :], pool[:start]):
        try:
            read(text)
        except BrokenError:
            continue


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 50))
def test_any_bytes_of_a_reply_are_read_or_rejected(
    nonsense: bytes, start: int, length: int
) -> None:
    """They are a value or a `NoReplyError`."""
    reply = (
        b"<?xml version='1.0'?><methodResponse><params><param><value><array><data>"
        b"<value><boolean>1</boolean></value><value><string>&lt;VM_POOL/&gt;</string></value>"
        b"</data></array></value></param></params></methodResponse>"
    )
    for body in (nonsense, reply[:start] + nonsense + reply[start + length :]):
        try:
            decoded([body])
        except (NoReplyError, xmlrpc.client.Fault):
            continue


def _mutated(data: st.DataObject, pool: str, tag: str) -> tuple[str, str]:
    """Return a pool with one element dropped, doubled, garbled or renamed."""
    root = etree.fromstring(pool)
    members = root.findall(tag)
    victim = data.draw(st.sampled_from(members))
    number = victim.findtext("ID") or ""
    inside = [element for element in victim.iter() if element is not victim]
    element = data.draw(st.sampled_from(inside))
    parent = element.getparent()
    assert parent is not None
    match data.draw(st.sampled_from(["drop", "double", "text", "rename", "empty", "nest"])):
        case "drop":
            parent.remove(element)
        case "double":
            parent.append(etree.fromstring(etree.tostring(element)))
        case "text":
            element.text = data.draw(WORDS)
        case "rename":
            element.tag = data.draw(st.sampled_from(["VM", "ID", "TEMPLATE", "HOST", "CPU", "X"]))
        case "empty":
            for child in list(element):
                element.remove(child)
            element.text = None
        case "nest":
            element.append(etree.fromstring(f"<{tag}><ID>1</ID></{tag}>"))
    return etree.tostring(root, encoding="unicode"), number


@settings(max_examples=shorten(300, 50))
@given(data=st.data())
def test_a_mutated_vm_affects_no_other(data: st.DataObject) -> None:
    """The others are read as before, and an observation of all is possible."""
    before = {vm.id: vm for vm in read_page(VM_POOL).vms}
    text, number = _mutated(data, VM_POOL, "VM")
    page = read_page(text)
    after = {vm.id: vm for vm in page.vms}
    assert len(page.ids) == len(before)
    for vm, row in before.items():
        if str(vm) != number and page.ids.count(vm) == 1:
            assert after[vm] == row
    observed(Pools(list(after.values()), [], page.ailing, read_hosts(HOST_POOL), {}), 0.0)


@settings(max_examples=shorten(300, 50))
@given(data=st.data())
def test_a_mutated_host_affects_no_other(data: st.DataObject) -> None:
    """Devices and nodes of the hosts are read or empty."""
    before = {host.id: host for host in read_hosts(HOST_POOL)}
    text, number = _mutated(data, HOST_POOL, "HOST")
    after = read_hosts(text)
    ids = [host.id for host in after]
    assert {host for host in before if str(host) != number} <= set(ids)
    for host in after:
        assert len(list(host.facts.pcis)) <= 4
        assert len(list(host.facts.numa)) <= 3
    observed(Pools(read_page(VM_POOL).vms, [], {}, after, {}), 0.0)
