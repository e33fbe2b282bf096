"""Texts that close their CDATA section: their effect on the XML, and the trusted parts."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from merkatd.opennebula import Client, OpenNebulaCloud

if TYPE_CHECKING:
    from merkatd.scheduler.base.ports import Observation
    from tests.contract.endpoint import Endpoint

CHEAPER = "]]></A></CONTEXT><CPU>0.01</CPU><MEMORY>1</MEMORY><CONTEXT><A><![CDATA["
ELSEWHERE = (
    "]]></A></USER_TEMPLATE><HISTORY_RECORDS><HISTORY><HID>77</HID></HISTORY></HISTORY_RECORDS>"
    "<USER_TEMPLATE><A><![CDATA["
)
PINNED = (
    "]]></A></CONTEXT><TOPOLOGY><PIN_POLICY>CORE</PIN_POLICY></TOPOLOGY><VMGROUP><ROLE>web</ROLE>"
    "<VMGROUP_ID>0</VMGROUP_ID></VMGROUP><CONTEXT><A><![CDATA["
)
ANOTHER_TEMPLATE = (
    "]]></A></CONTEXT><CPU>0.01</CPU><MEMORY>1</MEMORY></TEMPLATE><HIDDEN><TEMPLATE><CONTEXT><A>"
    "<![CDATA["
)
AND_ITS_END = "]]></B></USER_TEMPLATE></HIDDEN><USER_TEMPLATE><B><![CDATA["
ANOTHER = "]]></A></USER_TEMPLATE></VM><VM><ID>{}</ID></VM><VM><USER_TEMPLATE><A><![CDATA["


def observe(endpoint: Endpoint) -> Observation:
    """Return the daemon's observation."""
    client = Client(endpoint.transport, endpoint.admin, endpoint.clock)
    return endpoint.run(OpenNebulaCloud(client, endpoint.clock, endpoint.executor).observe())


def xml(inside: str) -> str:
    """Return a template with this content."""
    return f"<TEMPLATE><CPU>2</CPU><MEMORY>512</MEMORY>{inside}</TEMPLATE>"


def test_a_forged_size_has_no_effect(endpoint: Endpoint) -> None:
    """The pool shows the forged size; the daemon uses OpenNebula's own size and host."""
    _, session = endpoint.user()
    other = endpoint.running(1)
    inside = f"<CONTEXT><A>{escape(CHEAPER)}</A></CONTEXT>"
    forged = endpoint.running(0, xml(inside), session)
    shown = endpoint.xml("one.vmpool.infoextended", -2, -1, -1, -1)
    assert shown.findtext(f"VM[ID='{forged}']/TEMPLATE/CPU") == "0.01"
    expect(endpoint, observe(endpoint), other, forged)


def test_forged_cores_and_groups_have_no_effect(endpoint: Endpoint) -> None:
    """OpenNebula writes no TOPOLOGY or VMGROUP here, so only the forged ones appear.

    The owner may set neither: PIN_POLICY is restricted, and the group belongs to another user.
    """
    _, session = endpoint.user()
    other = endpoint.running(1)
    inside = f"<CONTEXT><A>{escape(PINNED)}</A></CONTEXT>"
    forged = endpoint.running(0, xml(inside), session)
    shown = endpoint.xml("one.vmpool.infoextended", -2, -1, -1, -1)
    assert shown.findtext(f"VM[ID='{forged}']/TEMPLATE/TOPOLOGY/PIN_POLICY") == "CORE"
    seen = observe(endpoint)
    expect(endpoint, seen, other, forged)
    assert seen.pin_policy == frozenset()


def test_a_template_forged_by_two_texts_has_no_effect(endpoint: Endpoint) -> None:
    """The true template is inside an element that the second text closes."""
    _, session = endpoint.user()
    other = endpoint.running(1)
    inside = f"<CONTEXT><A>{escape(ANOTHER_TEMPLATE)}</A></CONTEXT><B>{escape(AND_ITS_END)}</B>"
    forged = endpoint.running(0, xml(inside), session)
    shown = endpoint.xml("one.vmpool.infoextended", -2, -1, -1, -1)
    assert shown.findtext(f"VM[ID='{forged}']/TEMPLATE/CPU") == "0.01"
    expect(endpoint, observe(endpoint), other, forged)


def test_ordinary_vms_need_no_own_record(endpoint: Endpoint) -> None:
    """OpenNebula sorts attributes by name and puts equal ones together."""
    _, session = endpoint.user()
    inside = (
        "<Z>1</Z><NOTE>&lt;!-- a --&gt; &lt;CPU&gt;9&lt;/CPU&gt;</NOTE><A>1</A>"
        "<CONTEXT><Z>1</Z><CPU>2</CPU><A>1</A></CONTEXT><Z>2</Z>"
    )
    vm = endpoint.running(0, xml(inside), session)
    more = "<TEMPLATE><T><B>2</B><C>1</C><A>1</A></T><A>2</A></TEMPLATE>"
    endpoint.ok("one.vm.update", vm, more, 1, session=session)
    seen = observe(endpoint)
    assert seen.vm_id.tolist() == [vm]
    assert (seen.by_record, seen.ailing) == ({}, {})


def test_a_forged_place_has_no_effect(endpoint: Endpoint) -> None:
    """This holds for an unknown host, and for a host without the VM."""
    _, session = endpoint.user()
    other = endpoint.running(1)
    forged = endpoint.running(0, xml(""), session)
    endpoint.ok("one.vm.update", forged, xml(f"<A>{escape(ELSEWHERE)}</A>"), 0, session=session)
    assert "<HID>77</HID>" in str(endpoint.ok("one.vmpool.infoextended", -2, -1, -1, -1))
    expect(endpoint, observe(endpoint), other, forged)


def expect(endpoint: Endpoint, seen: Observation, other: int, forged: int) -> None:
    """Check both VMs against OpenNebula's charges, the second by its own record."""
    assert seen.vm_id.tolist() == [other, forged]
    charged = [endpoint.share(host) for host in (1, 0)]
    assert seen.vm_reserved.tolist() == [
        [share["CPU_USAGE"], share["MEM_USAGE"] // 1024] for share in charged
    ]
    assert seen.vm_host.tolist() == [endpoint.hosts[1], endpoint.hosts[0]]
    assert seen.ailing == {}
    assert list(seen.by_record) == [forged]


def test_no_text_creates_another_vm(endpoint: Endpoint) -> None:
    """Such a text is not valid XML of one VM and is not stored."""
    _, session = endpoint.user()
    other, mine = endpoint.running(), endpoint.new(session=session)
    text = xml(f"<A>{escape(ANOTHER.format(other))}</A>")
    code, why = endpoint.refused("one.vm.allocate", text, False, session=session)
    assert code == 8192
    assert "Error transforming the VM to XML" in why
    endpoint.ok("one.vm.update", mine, text, 0, session=session)
    seen = observe(endpoint)
    assert seen.vm_id.tolist() == [other, mine]
    assert seen.by_record == {}
