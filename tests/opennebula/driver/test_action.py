"""What oned hands over is read as it was recorded, and garbage harms nothing but itself."""

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

RECORDED = (Path(__file__).parent / "recorded" / "place74.xml").read_text()
"""Of a real oned 7.4 with two VMs pending and four hosts."""


def read(text: str | bytes) -> DriverRequest:
    """As it comes from oned."""
    return read_action(base64.b64encode(text.encode() if isinstance(text, str) else text))


def test_the_recorded_question() -> None:
    """Hosts with their room, who may be where, the datastore that will do."""
    action = read(RECORDED)
    assert action.hosts == {0: frozenset({0, 1, 2, 3}), 2: frozenset({0, 1, 2, 3})}
    assert action.stores == {0: frozenset({0}), 2: frozenset({0})}
    assert action.networks == {0: {}, 2: {}}
    assert action.room[0] == HostRoom(cpu=3200.0, memory_mib=131072.0)
    assert set(action.room) == set(action.clusters) == {0, 1, 2, 3}
    assert set(action.clusters.values()) == {0}
    assert action.datastores[0].free > 0
    assert action.unread == 0


def test_line_breaks_in_base64_are_none_of_its_words() -> None:
    """Ruby's encoder puts one after every sixty characters."""
    assert read_action(base64.encodebytes(RECORDED.encode())).hosts == read(RECORDED).hosts


def test_names_that_users_choose_mislead_nobody() -> None:
    """A VM can have attributes called REQUIREMENTS, HOST_POOL or VM."""
    evil = (
        "<USER_TEMPLATE><REQUIREMENTS><VM><ID>0</ID><HOSTS><ID>9</ID></HOSTS></VM></REQUIREMENTS>"
        "<HOST><ID>0</ID></HOST>"
    )
    action = read(RECORDED.replace("<USER_TEMPLATE>", evil, 1))
    assert action.hosts == read(RECORDED).hosts
    assert action.room == read(RECORDED).room


@pytest.mark.parametrize("one", ["<VM/>", "<HOST><ID>0</ID></HOST>", "<A><VNET/></A>"])
@pytest.mark.parametrize("where", ["<USER_TEMPLATE>", "<DATASTORE_POOL><DATASTORE>"])
def test_any_number_of_them_misleads_nobody(where: str, one: str) -> None:
    """Where users write, and where only administrators do."""
    assert where in RECORDED
    assert read(RECORDED.replace(where, where + one * 20_000, 1)) == read(RECORDED)


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
def test_one_bad_element_is_left_out(old: str, new: str) -> None:
    """And counted; the others are as they were."""
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
def test_what_is_no_question_is_said_to_be_none(text: str) -> None:
    """Nothing is decided on half of a question."""
    with pytest.raises(DriverRequestError):
        read(text)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """As base64 and as what is in it."""
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


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_mutilated_questions_are_read_or_refused(data: st.DataObject) -> None:
    """Pieces dropped, doubled, exchanged and replaced; what is read is of the right kind."""
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


def test_only_the_cluster_that_is_asked_about_is_optimised() -> None:
    """Hosts elsewhere are no destinations, whatever else matches."""
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
def test_no_users_text_keeps_others_from_their_places(kind: str, pool: str) -> None:
    """Whatever is written in a VM or a VM group."""
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
def test_no_two_texts_together_keep_others_from_their_places(
    vm: list[str], group: list[str], named: str
) -> None:
    """One in a VM and one in a VM group; some server may take a name that XML has not."""
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


def test_sections_that_begin_again_and_again_take_no_longer() -> None:
    """The text is gone through once."""
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
def test_attributes_named_like_pools_and_names_that_lxml_refuses(in_vm: str, in_group: str) -> None:
    """Any user can give them; they harm nobody's placing, alone or together."""
    group = f"<VM_GROUP><ID>0</ID><TEMPLATE>{in_group}</TEMPLATE></VM_GROUP>"
    text = RECORDED.replace("<USER_TEMPLATE>", f"<USER_TEMPLATE>{in_vm}", 1)
    text = text.replace("<VM_GROUP_POOL/>", f"<VM_GROUP_POOL>{group}</VM_GROUP_POOL>")
    found = read_action(base64.b64encode(text.encode()))
    plain = read_action(base64.b64encode(RECORDED.encode()))
    assert (found.hosts, found.room, found.stores) == (plain.hosts, plain.room, plain.stores)
