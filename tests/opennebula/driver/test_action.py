"""Requests of oned are read as recorded, and garbage affects only itself."""

import base64
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.opennebula.driver.driver_answer import handover_request
from merkatd.opennebula.driver.driver_request import DriverRequest, DriverRequestError, read_action
from merkatd.scheduler.execution.delegation import HostRoom
from tests.lengths import shorten

RECORDED = (Path(__file__).parent / "recorded" / "place74.xml").read_text()
"""Recorded from a real oned 7.4 with two pending VMs and four hosts."""


def read(text: str | bytes) -> DriverRequest:
    """Read a request in oned's form."""
    return read_action(base64.b64encode(text.encode() if isinstance(text, str) else text))


def test_the_recorded_request_is_read() -> None:
    """It has hosts with room, matching hosts of VMs, and the datastore."""
    action = read(RECORDED)
    assert action.hosts == {0: frozenset({0, 1, 2, 3}), 2: frozenset({0, 1, 2, 3})}
    assert action.stores == {0: frozenset({0}), 2: frozenset({0})}
    assert action.networks == {0: {}, 2: {}}
    assert action.room[0] == HostRoom(cpu=3200.0, memory_mib=131072.0)
    assert set(action.room) == set(action.clusters) == {0, 1, 2, 3}
    assert set(action.clusters.values()) == {0}
    assert action.datastores[0].free > 0
    assert action.unread == 0


def test_line_breaks_in_base64_are_ignored() -> None:
    """Ruby's encoder adds one after every sixty characters."""
    assert read_action(base64.encodebytes(RECORDED.encode())).hosts == read(RECORDED).hosts


def test_names_chosen_by_users_do_not_mislead() -> None:
    """A VM may have attributes named REQUIREMENTS, HOST_POOL or VM."""
    evil = (
        "<USER_TEMPLATE><REQUIREMENTS><VM><ID>0</ID><HOSTS><ID>9</ID></HOSTS></VM></REQUIREMENTS>"
        "<HOST><ID>0</ID></HOST>"
    )
    action = read(RECORDED.replace("<USER_TEMPLATE>", evil, 1))
    assert action.hosts == read(RECORDED).hosts
    assert action.room == read(RECORDED).room


@pytest.mark.parametrize("text", ["<VM/>", "<HOST><ID>0</ID></HOST>", "<A><VNET/></A>"])
@pytest.mark.parametrize("where", ["<USER_TEMPLATE>", "<DATASTORE_POOL><DATASTORE>"])
def test_any_number_of_such_names_does_not_mislead(where: str, text: str) -> None:
    """This holds where users write, and where only administrators do."""
    assert where in RECORDED
    assert read(RECORDED.replace(where, where + text * 20_000, 1)) == read(RECORDED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<REQUIREMENTS><VM><ID>0</ID>", "<REQUIREMENTS><VM><ID>zero</ID>"),
        ("<REQUIREMENTS><VM><ID>0</ID>", "<REQUIREMENTS><VM>"),
        ("<MAX_CPU>3200</MAX_CPU>", "<MAX_CPU>much</MAX_CPU>"),
        ("<MAX_CPU>3200</MAX_CPU>", f"<MAX_CPU>{'9' * 400}</MAX_CPU>"),
        ("<HOST_POOL><HOST><ID>0</ID>", "<HOST_POOL><HOST>"),
    ],
)
def test_an_invalid_element_is_left_out(old: str, new: str) -> None:
    """It is counted, and the others are unchanged."""
    assert old in RECORDED
    action = read(RECORDED.replace(old, new, 1))
    assert action.unread == 1
    assert action.hosts[2] == frozenset({0, 1, 2, 3})
    assert {1, 2, 3} <= set(action.room)


@pytest.mark.parametrize(
    "text",
    ["", "x", "<A/>", RECORDED[:-40], RECORDED[: len(RECORDED) // 2], "<VM_POOL></VM_POOL>"],
    ids=["empty", "no XML", "another", "cut at its end", "cut in the middle", "a pool"],
)
def test_an_invalid_request_is_an_error(text: str) -> None:
    """Nothing is decided from an incomplete request."""
    with pytest.raises(DriverRequestError):
        read(text)


@settings(max_examples=shorten(150, 50), deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    """This holds for base64 and its content."""
    for payload in (data, base64.b64encode(data)):
        with pytest.raises(DriverRequestError):
            read_action(payload)


PIECES = re.findall(r"<[^>]*>|[^<]+", RECORDED[-6000:])
SMALL = (
    "<SCHEDULER_DRIVER_ACTION>"
    "<HOST_POOL><HOST><ID>1</ID><CLUSTER_ID>0</CLUSTER_ID><HOST_SHARE><MEM_USAGE>0</MEM_USAGE>"
    "<CPU_USAGE>0</CPU_USAGE><MAX_MEM>1024</MAX_MEM><MAX_CPU>100</MAX_CPU></HOST_SHARE></HOST>"
    "</HOST_POOL><REQUIREMENTS><VM><ID>7</ID><HOSTS><ID>1</ID></HOSTS></VM></REQUIREMENTS>"
    "</SCHEDULER_DRIVER_ACTION>"
)


@settings(max_examples=shorten(300, 80), deadline=None)
@given(st.data())
def test_mutilated_requests_are_read_or_rejected(data: st.DataObject) -> None:
    """Pieces are dropped, doubled, exchanged and replaced; results have the right types."""
    pieces = re.findall(r"<[^>]*>|[^<]+", SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(pieces) - 1))
        kind = data.draw(st.sampled_from(["drop", "double", "swap", "other"]))
        if kind == "drop":
            del pieces[at]
        elif kind == "double":
            pieces.insert(at, pieces[at])
        elif kind == "swap":
            other = data.draw(st.integers(0, len(pieces) - 1))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        else:
            pieces[at] = data.draw(st.sampled_from(PIECES) | st.text(max_size=8))
    try:
        action = read("".join(pieces).encode("utf-8", "replace"))
    except DriverRequestError:
        return
    for vm, hosts in action.hosts.items():
        assert isinstance(vm, int)
        assert all(isinstance(host, int) for host in hosts)
    assert all(isinstance(room, HostRoom) for room in action.room.values())


def test_only_the_requested_cluster_is_optimized() -> None:
    """Hosts of other clusters are no destinations."""
    text = RECORDED.replace("<CLUSTER_ID>0</CLUSTER_ID>", "<CLUSTER_ID>7</CLUSTER_ID>", 2)
    action = read(text)
    assert handover_request(action, 7).hosts[0] == frozenset({0, 1})
    assert handover_request(action, 0).hosts[0] == frozenset({2, 3})
    assert handover_request(action, None).hosts[0] == frozenset({0, 1, 2, 3})


TEXTS = {
    "long": "<A>" + "x" * 10_500_000 + "</A>",
    "long CDATA": "<A><![CDATA[" + "x" * 10_500_000 + "]]></A>",
    "deep": "<A>" * 3000 + "</A>" * 3000,
    "a digit first": "<1A>x</1A>",
    "no character": "<A>\x01</A>",
    "another pool's end": "<A><![CDATA[</VM_POOL><HOST_POOL>]]></A><1A/>",
    "many": "<A/>" * 300_000,
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("pool", ["VM_POOL", "VM_GROUP_POOL"])
def test_no_users_text_prevents_placements(kind: str, pool: str) -> None:
    """This holds for any text in a VM or a VM group."""
    if pool == "VM_POOL":
        text = RECORDED.replace("<USER_TEMPLATE>", "<USER_TEMPLATE>" + TEXTS[kind], 1)
    else:
        group = f"<{pool}><VM_GROUP><ID>0</ID>{TEXTS[kind]}</VM_GROUP></{pool}>"
        text = RECORDED.replace(f"<{pool}/>", group, 1)
    assert len(text) > len(RECORDED)
    action, before = read(text), read(RECORDED)
    assert (action.hosts, action.room, action.stores) == (before.hosts, before.room, before.stores)


TAGS = [f"<{slash}{pool}>" for pool in ("VM_POOL", "VM_GROUP_POOL", "HOST_POOL") for slash in "/ "]
WORDS = st.lists(st.sampled_from([*(tag.replace(" ", "") for tag in TAGS), "x", "]]"]), max_size=4)


@settings(max_examples=60, deadline=None)
@given(vm=WORDS, group=WORDS, named=st.sampled_from(["1A", "A"]))
def test_no_two_texts_together_prevent_placements(
    vm: list[str], group: list[str], named: str
) -> None:
    """One is in a VM and one in a VM group, perhaps with a name that is invalid in XML."""
    in_vm, in_group = "".join(vm), "".join(group)
    text = RECORDED.replace(
        "<USER_TEMPLATE>", f"<USER_TEMPLATE><{named}><![CDATA[{in_vm}]]></{named}>", 1
    )
    text = text.replace(
        "<VM_GROUP_POOL/>",
        "<VM_GROUP_POOL><VM_GROUP><ID>0</ID><TEMPLATE><1B/>"
        f"<B><![CDATA[{in_group}]]></B></TEMPLATE></VM_GROUP></VM_GROUP_POOL>",
        1,
    )
    action, before = read(text), read(RECORDED)
    assert (action.hosts, action.room, action.stores) == (before.hosts, before.room, before.stores)


def test_repeated_openings_of_sections_take_linear_time() -> None:
    """The text is scanned once."""
    hostile = "<1A/>" + "<![CDATA[" * 1_000_000 + "]]>"
    long = RECORDED.replace("<USER_TEMPLATE>", "<USER_TEMPLATE>" + hostile, 1)
    began_s = time.process_time()
    assert read(long).hosts == read(RECORDED).hosts
    assert time.process_time() - began_s < 2


ODD = [
    "<A:B><![CDATA[x]]></A:B>",
    "<VM_POOL><![CDATA[x]]></VM_POOL>",
    "<VM_GROUP_POOL><A><![CDATA[x]]></A></VM_GROUP_POOL>",
    "<1A/>",
]


@pytest.mark.parametrize("in_group", ODD)
@pytest.mark.parametrize("in_vm", ODD)
def test_attributes_named_like_pools_do_no_harm(in_vm: str, in_group: str) -> None:
    """Any user can write them, also with names that lxml rejects."""
    group = f"<VM_GROUP><ID>0</ID><TEMPLATE>{in_group}</TEMPLATE></VM_GROUP>"
    text = RECORDED.replace("<USER_TEMPLATE>", f"<USER_TEMPLATE>{in_vm}", 1)
    text = text.replace("<VM_GROUP_POOL/>", f"<VM_GROUP_POOL>{group}</VM_GROUP_POOL>")
    action = read_action(base64.b64encode(text.encode()))
    plain = read_action(base64.b64encode(RECORDED.encode()))
    assert (action.hosts, action.room, action.stores) == (plain.hosts, plain.room, plain.stores)
