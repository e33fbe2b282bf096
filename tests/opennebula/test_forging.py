"""A VM is read as OpenNebula stores it or as unreadable, whatever its owner wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.opennebula.pools.vm_history import _of_one
from merkatd.opennebula.pools.vm_pool import VmRow, read_page, read_vm
from merkatd.opennebula.rpc.xml_elements import BrokenError, UnreadableError
from tests.lengths import shorten

HEAD = (
    "<VM><ID>7</ID><UID>2</UID><GID>1</GID><UNAME>eve</UNAME><GNAME>users</GNAME><NAME>v</NAME>"
    "<PERMISSIONS><OWNER_U>1</OWNER_U></PERMISSIONS><LAST_POLL>0</LAST_POLL><STATE>3</STATE>"
    "<LCM_STATE>3</LCM_STATE><PREV_STATE>3</PREV_STATE><PREV_LCM_STATE>3</PREV_LCM_STATE>"
    "<RESCHED>0</RESCHED><STIME>100</STIME><ETIME>0</ETIME><DEPLOY_ID></DEPLOY_ID><MONITORING/>"
)
RECORDS = (
    "<HISTORY_RECORDS><HISTORY><OID>7</OID><SEQ>1</SEQ><HOSTNAME>a</HOSTNAME><HID>4</HID><CID>0"
    "</CID><DS_ID>0</DS_ID><RSTIME>200</RSTIME><RETIME>0</RETIME><ACTION>0</ACTION></HISTORY>"
    "</HISTORY_RECORDS>"
)
PINNED = "<TOPOLOGY><PIN_POLICY><![CDATA[CORE]]></PIN_POLICY></TOPOLOGY>"
GROUP = "<VMGROUP><ROLE><![CDATA[web]]></ROLE><VMGROUP_ID><![CDATA[0]]></VMGROUP_ID></VMGROUP>"
OFF = RECORDS.replace("<RETIME>0<", "<RETIME>201<")


def section(text: str) -> str:
    """Return a text as OpenNebula writes it."""
    return f"<![CDATA[{text}]]>"


@dataclass(frozen=True)
class Texts:
    """An owner's texts in each place: in a vector, and in attributes of both templates."""

    context: str = "x"
    early: str = "x"
    late: str = "x"
    user: str = "x"
    second: str = "x"
    snapshot: str = ""

    def written(self) -> str:
        """Return the VM as OpenNebula writes it, with attributes and vector parts by name."""
        disks = f"<SNAPSHOTS><SNAPSHOT><NAME>{self.snapshot}</NAME></SNAPSHOT></SNAPSHOTS>"
        return (
            f"{HEAD}<TEMPLATE><CONTEXT><A>{section(self.context)}</A><B>{section('b')}</B>"
            f"</CONTEXT><CPU>{section('8')}</CPU><HYPERVISOR>{section(self.early)}</HYPERVISOR>"
            f"<MEMORY>{section('1024')}</MEMORY><TM_MAD_SYSTEM>{section(self.late)}</TM_MAD_SYSTEM>"
            f"<VCPU>{section('8')}</VCPU></TEMPLATE><USER_TEMPLATE><N>{section(self.user)}</N>"
            f"<NOTE>{section(self.second)}</NOTE></USER_TEMPLATE>{RECORDS}"
            f"{disks if self.snapshot else ''}</VM>"
        )


def own(row: VmRow) -> tuple[object, ...]:
    """Return the fields that only OpenNebula may set."""
    kept = (row.cpu, row.vcpus, row.memory_mib, row.pinned, row.member, row.wants)
    return (
        *kept,
        row.priority,
        row.state,
        row.life,
        row.host,
        row.record,
        row.locked,
        row.owner,
        row.group,
    )


HONEST = own(read_vm(Texts().written()))


def read_fields(texts: Texts) -> tuple[object, ...] | None:
    """Return the fields of a VM with these texts, or None, from a page and alone."""
    written = texts.written()
    try:
        alone = own(read_vm(written))
    except (BrokenError, UnreadableError):
        alone = None
    try:
        page = read_page(f"<VM_POOL>{written}</VM_POOL>")
    except BrokenError:
        assert alone is None
        return None
    assert (None if page.ailing else own(page.vms[0])) == alone
    return alone


CASES = {
    "its own cores": {"context": f"]]></A></CONTEXT>{PINNED}<CONTEXT><A><![CDATA["},
    "a vector of its own": {
        "context": f"]]></A><B>y</B></CONTEXT>{PINNED}<CONTEXT><A><![CDATA[",
    },
    "another's VM group": {"context": f"]]></A></CONTEXT>{GROUP}<CONTEXT><A><![CDATA["},
    "twice in a vector": {"context": "]]></A><B>y</B><A><![CDATA["},
    "all of the template": {
        "context": (
            "]]></A></CONTEXT><CPU>1</CPU><MEMORY>1</MEMORY></TEMPLATE><HIDDEN><TEMPLATE><CONTEXT>"
            "<A><![CDATA["
        ),
        "user": "]]></N></USER_TEMPLATE></HIDDEN><USER_TEMPLATE><N><![CDATA[",
    },
    "one attribute by two texts": {
        "early": "]]></HYPERVISOR><MEMORY>1</MEMORY><OZ><HYPERVISOR><![CDATA[",
        "late": "]]></TM_MAD_SYSTEM></OZ><TM_MAD_SYSTEM><![CDATA[",
    },
    "the same within another": {
        "early": "]]></HYPERVISOR><MEMORY>1</MEMORY><OZ><P><HYPERVISOR><![CDATA[",
        "late": "]]></TM_MAD_SYSTEM></P></OZ><TM_MAD_SYSTEM><![CDATA[",
    },
    "a node of memory": {
        "early": "]]></HYPERVISOR>" + PINNED + "<NUMA_NODE><HYPERVISOR><![CDATA[",
        "late": "]]></TM_MAD_SYSTEM></NUMA_NODE><TM_MAD_SYSTEM><![CDATA[",
    },
    "a namespace": {
        "context": (
            "]]></A></CONTEXT><CPU>0.01</CPU><MEMORY>1</MEMORY></TEMPLATE><TEMPLATE xmlns='f'>"
            "<CONTEXT><A><![CDATA["
        ),
    },
    "a namespace of one part": {
        "context": f"]]></A></CONTEXT>{PINNED}<CONTEXT xmlns='f'><A><![CDATA[",
    },
    "a namespace with a name": {
        "context": f"]]></A></CONTEXT>{PINNED}<f:CONTEXT xmlns:f='f'><A><![CDATA[",
        "early": "]]></HYPERVISOR></f:CONTEXT><HYPERVISOR><![CDATA[",
    },
    "an attribute behind another": {
        "early": "]]></HYPERVISOR><MEMORY>1</MEMORY><OZ><P/><HYPERVISOR><![CDATA[",
        "late": "]]></TM_MAD_SYSTEM></OZ><TM_MAD_SYSTEM><![CDATA[",
    },
    "a priority behind another": {
        "user": "]]></N><NA>1</NA><NB><P/><N><![CDATA[",
        "second": "]]></NOTE></NB><NOTE>z</NOTE><USER_PRIORITY>9</USER_PRIORITY><NOTE><![CDATA[",
    },
    "a priority": {
        "user": "]]></N><NA>1</NA><NB><N><![CDATA[",
        "second": "]]></NOTE></NB><NOTE>z</NOTE><USER_PRIORITY>9</USER_PRIORITY><NOTE><![CDATA[",
    },
    "a priority before": {
        "user": "]]></N><USER_PRIORITY>9</USER_PRIORITY><NB><N><![CDATA[",
        "second": "]]></NOTE></NB><NOTE><![CDATA[",
    },
    "a size in a comment": {
        "early": "]]></HYPERVISOR><MEMORY>1</MEMORY><!--",
        "late": "--><TM_MAD_SYSTEM><![CDATA[",
    },
    "a size in an instruction": {
        "early": "]]></HYPERVISOR><MEMORY>1</MEMORY><?x ",
        "late": "?><TM_MAD_SYSTEM><![CDATA[",
    },
    "a history in a comment": {
        "user": f"]]></N></USER_TEMPLATE>{OFF}<!--",
        "snapshot": "s--><SNAPSHOTS><SNAPSHOT><NAME><![CDATA[t]]>",
    },
    "a second history": {
        "snapshot": f"</NAME></SNAPSHOT></SNAPSHOTS>{OFF}<SNAPSHOTS><SNAPSHOT><NAME>"
    },
}


@pytest.mark.parametrize("name", CASES)
def test_forged_fields_are_rejected(name: str) -> None:
    """Each of these would be accepted without one of the rules."""
    assert read_fields(Texts(**CASES[name])) is None


@pytest.mark.parametrize("place", ["context", "early", "late", "user", "second"])
@given(
    text=st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Z"))).filter(
        lambda text: "]]>" not in text
    )
)
def test_a_text_within_its_section_is_accepted(place: str, text: str) -> None:
    """Tags and comments in it are only letters."""
    for text_around in (text, f"<!--{text}", f"<CPU>{text}</CPU><?x", f"</{text}>"):
        assert read_fields(Texts(**{place: text_around})) == HONEST


def test_histories_are_checked_like_vms() -> None:
    """A forged history is rejected."""
    assert _of_one(Texts().written(), 0) is not None
    for name in ("a history in a comment", "a second history"):
        assert _of_one(Texts(**CASES[name]).written(), 0) is None


class Place(NamedTuple):
    """The place of a text: the elements around it, the outermost first."""

    name: str
    around: tuple[str, ...]


PLACES = (
    Place("context", ("TEMPLATE", "CONTEXT", "A")),
    Place("early", ("TEMPLATE", "HYPERVISOR")),
    Place("late", ("TEMPLATE", "TM_MAD_SYSTEM")),
    Place("user", ("USER_TEMPLATE", "N")),
    Place("second", ("USER_TEMPLATE", "NOTE")),
)
NAMES = (
    *("CPU", "MEMORY", "VCPU", "TOPOLOGY", "PIN_POLICY", "VMGROUP", "ROLE", "CONTEXT", "TEMPLATE"),
    *(
        "USER_TEMPLATE",
        "HISTORY_RECORDS",
        "USER_PRIORITY",
        "N",
        "NOTE",
        "A",
        "HYPERVISOR",
        "OZ",
        "LOCK",
    ),
)
WHOLE = (
    "<USER_PRIORITY>9</USER_PRIORITY>",
    PINNED,
    GROUP,
    OFF,
    "<CPU>1</CPU>",
    "<MEMORY>1</MEMORY>",
    "<LOCK/>",
    "<TEMPLATE/>",
)
VALUES = ("1", "CORE", "web", "")


def opened(names: Any) -> str:
    """Return the start tags of these elements."""
    return "".join(f"<{name}>" for name in names)


def closed(names: Any) -> str:
    """Return the end tags of these elements."""
    return "".join(f"</{name}>" for name in reversed(names))


contents = st.lists(
    st.one_of(
        st.sampled_from(WHOLE),
        st.recursive(
            st.builds(
                lambda name, text: f"<{name}>{text}</{name}>",
                st.sampled_from(NAMES),
                st.sampled_from(VALUES),
            ),
            lambda inner: st.builds(
                lambda name, parts: f"<{name}>{''.join(parts)}</{name}>",
                st.sampled_from(NAMES),
                st.lists(inner, max_size=2),
            ),
            max_leaves=3,
        ),
    ),
    max_size=2,
).map("".join)


def begun(names: Sequence[str], spaced: bool, first: str) -> str:
    """Return opening elements: the outermost in a namespace, or with a first part."""
    if not names:
        return ""
    space = " xmlns='f'" if spaced else ""
    return f"<{names[0]}{space}>{opened(names[1:])}{first}"


tags = st.lists(st.sampled_from(NAMES), max_size=2)
spaces = st.integers(0, 9).map(lambda number: number == 0)
firsts = st.sampled_from(["", "", "<P/>", "<P>1</P>"])


@settings(max_examples=shorten(3000, 200))
@given(data=st.data())
def test_one_text_forges_nothing(data: st.DataObject) -> None:
    """It ends some of the elements around it, adds content, and opens them again."""
    name, around = data.draw(st.sampled_from(PLACES))
    depth = data.draw(st.integers(0, len(around)))
    inner = around[depth:]
    again = begun(inner, data.draw(spaces), "")
    text = f"]]>{closed(inner)}{data.draw(contents)}{again}<![CDATA["
    assert read_fields(Texts(**{name: text})) in {None, HONEST}


@settings(max_examples=shorten(5000, 300))
@given(data=st.data())
def test_two_texts_forge_nothing(data: st.DataObject) -> None:
    """The first leaves elements open, which include everything up to the second."""
    first, second = sorted(
        data.draw(
            st.lists(st.sampled_from(range(len(PLACES))), min_size=2, max_size=2, unique=True)
        )
    )
    (earlier, outer), (other, later) = PLACES[first], PLACES[second]
    shared = int(outer[0] == later[0])
    depth = data.draw(st.integers(0, shared))
    swallowing = data.draw(tags)
    texts = {
        earlier: (
            f"]]>{closed(outer[depth:])}{data.draw(contents)}"
            f"{begun(swallowing, data.draw(spaces), data.draw(firsts))}"
            f"{opened(outer[depth:])}<![CDATA["
        ),
        other: (
            f"]]>{closed(later[depth:])}{closed(swallowing)}{data.draw(contents)}"
            f"{opened(later[depth:])}<![CDATA["
        ),
    }
    assert read_fields(Texts(**texts)) in {None, HONEST}


LONG_NAME = "A" * 50_000


@pytest.mark.parametrize(
    "user",
    [
        f"x]]></N><{LONG_NAME}>1</{LONG_NAME}><B>2</B><{LONG_NAME}>3</{LONG_NAME}><N><![CDATA[",
        f"x]]></N><{LONG_NAME}><B>1</B><B>2</B></{LONG_NAME}><N><![CDATA[",
        f"x]]></N><{LONG_NAME}><B><C>1</C></B></{LONG_NAME}><N><![CDATA[",
        f"x]]></N><{LONG_NAME}></B><N><![CDATA[",
    ],
)
def test_a_reason_is_short_however_long_an_owners_names_are(user: str) -> None:
    """The log repeats the reason in each period, and the VM's message has it."""
    with pytest.raises((BrokenError, UnreadableError), match="AAA") as error:
        read_vm(Texts(user=user).written())
    assert len(str(error.value)) < 300
