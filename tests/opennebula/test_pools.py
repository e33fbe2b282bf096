"""From the text of pools to rows: each VM and host is read or left out independently."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import capturedLogs

from merkatd.cluster import HostState, VmState
from merkatd.opennebula.observation_builder import Pools, observed
from merkatd.opennebula.pools.estate_pools import read_users
from merkatd.opennebula.pools.one_states import host_state, state_meaning
from merkatd.opennebula.pools.vm_pool import NAMELESS, GarbledError, Page, read_page, read_vm
from merkatd.opennebula.rpc.xml_elements import BrokenError, rows
from tests.opennebula.host_rows import read_hosts
from tests.opennebula.pool_texts import pool, vm

# -- states -------------------------------------------------------------------------------------

MEANT = {
    (0, 0): (VmState.ABSENT, "INIT", False),
    (1, 0): (VmState.PENDING, "PENDING", False),
    (2, 0): (VmState.ABSENT, "HOLD", False),
    (3, 0): (VmState.BUSY, "LCM_INIT", True),
    (3, 3): (VmState.RUNNING, "RUNNING", True),
    (3, 4): (VmState.BUSY, "MIGRATE", True),
    (3, 16): (VmState.POWERED_OFF, "UNKNOWN", True),
    (3, 17): (VmState.BUSY, "HOTPLUG", True),
    (3, 36): (VmState.ABSENT, "BOOT_FAILURE", True),
    (3, 45): (VmState.BUSY, "PROLOG_MIGRATE_SUSPEND", True),
    (3, 61): (VmState.ABSENT, "PROLOG_MIGRATE_UNKNOWN_FAILURE", True),
    (3, 64): (VmState.ABSENT, "DISK_RESIZE_UNDEPLOYED", False),
    (3, 66): (VmState.BUSY, "HOTPLUG_RESIZE", True),
    (3, 69): (VmState.BUSY, "BACKUP", True),
    (3, 71): (VmState.BUSY, "RESTORE", True),
    (3, 72): (VmState.BUSY, "in the unknown life-cycle state 72", True),
    (4, 0): (VmState.ABSENT, "STOPPED", False),
    (5, 0): (VmState.SUSPENDED, "SUSPENDED", True),
    (6, 0): (VmState.ABSENT, "DONE", False),
    (8, 0): (VmState.POWERED_OFF, "POWEROFF", True),
    (9, 0): (VmState.ABSENT, "UNDEPLOYED", False),
    (10, 0): (VmState.ABSENT, "CLONING", False),
    (42, 0): (VmState.ABSENT, "in the unknown state 42", False),
}


@pytest.mark.parametrize(("numbers", "meant"), MEANT.items())
def test_states_of_vms_have_their_meaning(
    numbers: tuple[int, int], meant: tuple[VmState, str, bool]
) -> None:
    """It has Merkat's state, the name, and whether a host has an allocation."""
    assert state_meaning(*numbers)[:3] == meant


def test_states_of_hosts_have_their_meaning() -> None:
    """All nine states and an unknown one are covered."""
    on, disabled, off = HostState.ON, HostState.DISABLED, HostState.OFF
    meant = [off, on, on, off, disabled, off, off, disabled, off, off]
    assert [host_state(number) for number in range(10)] == meant


# -- VMs ----------------------------------------------------------------------------------------


def test_a_pending_vm_with_a_history_has_no_host() -> None:
    """It keeps the record of its former host."""
    page = read_page(pool(vm(STATE="<STATE>1</STATE>", LCM_STATE="<LCM_STATE>0</LCM_STATE>")))
    seen = observed(Pools(page.vms, [], {}, read_hosts("<HOST_POOL/>"), {}), 0.0).observation
    assert seen.vm_host.tolist() == [-1]


def test_attributes_have_an_order_of_precedence() -> None:
    """The user template precedes the template, names precede parts, others are ignored."""
    row = read_vm(
        vm(
            user="<MERKAT_BID_CPU>1</MERKAT_BID_CPU><MERKAT><CPU>2</CPU><MEMORY>3</MEMORY>"
            "<MAX_CPU>4</MAX_CPU></MERKAT><LABELS>x</LABELS><MERKATOR>5</MERKATOR>",
            template="<MERKAT_BID_MEMORY>6</MERKAT_BID_MEMORY><MERKAT_MIN_CPU>7</MERKAT_MIN_CPU>",
        )
    )
    assert row.attributes == {
        "MERKAT_BID_CPU": "1",
        "MERKAT_BID_MEMORY": "3",
        "MERKAT_MAX_CPU": "4",
        "MERKAT_MIN_CPU": "7",
    }


def test_attributes_may_have_the_names_of_elements() -> None:
    """A user's attributes VM, ID or STATE change nothing."""
    names = "<VM><ID>9</ID></VM><ID>8</ID><STATE>1</STATE><VM_POOL>x</VM_POOL><HISTORY_RECORDS/>"
    page = read_page(pool(vm(2, user=names), vm(1, template=names)))
    assert [row.id for row in page.vms] == page.ids == [2, 1]
    assert {row.state for row in page.vms} == {3}


MALFORMED = {
    "LCM_STATE is missing": {"LCM_STATE": ""},
    "STATE is 'x', not a whole number": {"STATE": "<STATE>x</STATE>"},
    "TEMPLATE is missing": {"TEMPLATE": ""},
    "USER_TEMPLATE is missing": {"USER_TEMPLATE": ""},
    "NAME is missing": {"NAME": ""},
    "UID is '', not a whole number": {"UID": "<UID/>"},
    "UID must be at least 0 (got -1)": {"UID": "<UID>-1</UID>"},
    "GID must be at least 0 (got -1)": {"GID": "<GID>-1</GID>"},
    "CPU is missing": {"TEMPLATE": "<TEMPLATE><MEMORY>1</MEMORY></TEMPLATE>"},
    "CPU is 'nan', not a number above 0": {
        "TEMPLATE": "<TEMPLATE><CPU>nan</CPU><MEMORY>1</MEMORY></TEMPLATE>"
    },
    "CPU is '1e300', not a number above 0": {
        "TEMPLATE": "<TEMPLATE><CPU>1e300</CPU><MEMORY>1</MEMORY></TEMPLATE>"
    },
    f"GID is '{'9' * 40}', not a whole number": {"GID": f"<GID>{'9' * 5000}</GID>"},
    "MEMORY is '-5', not a number above 0": {
        "TEMPLATE": "<TEMPLATE><CPU>1</CPU><MEMORY>-5</MEMORY></TEMPLATE>"
    },
    "VCPU is '2.5', not a whole number": {
        "TEMPLATE": "<TEMPLATE><CPU>1</CPU><MEMORY>1</MEMORY><VCPU>2.5</VCPU></TEMPLATE>"
    },
    "HID is missing": {"HISTORY_RECORDS": "<HISTORY_RECORDS><HISTORY/></HISTORY_RECORDS>"},
}


@pytest.mark.parametrize(("why", "changes"), MALFORMED.items())
def test_a_malformed_vm_affects_only_itself(why: str, changes: dict[str, str]) -> None:
    """It is reported with the reason, and the others are read."""
    page = read_page(pool(vm(3), vm(2, **changes), vm(1)))
    assert [row.id for row in page.vms] == [3, 1]
    assert page.ailing == {2: why}
    assert page.ids == [3, 2, 1]


def test_a_vm_without_an_id_is_counted() -> None:
    """It is unknown which VM it is."""
    for wrong in ("", "<ID/>", "<ID>-7</ID>", f"<ID>{'9' * 5000}</ID>"):
        page = read_page(pool(vm(3), vm(2, ID=wrong), vm(1)))
        assert list(page.ailing) == [NAMELESS]
    page = read_page(pool(vm(3), vm(2, ID=""), vm(1)))
    assert page.ailing == {NAMELESS: "ID is missing"}
    assert len(page.vms) == 2


@pytest.mark.parametrize("name", ["<NAME>a & b</NAME>", "<NAME>a", "<NAME>\x02</NAME>", "</NAME>"])
def test_a_pool_with_invalid_xml_in_a_vm_is_rejected(name: str) -> None:
    """It is unknown which VM it is, so the pool is read in parts."""
    with pytest.raises(GarbledError):
        read_page(pool(vm(3), vm(2, NAME=name), vm(1)))


@pytest.mark.parametrize("twice", ["STATE", "TEMPLATE", "USER_TEMPLATE", "HISTORY_RECORDS"])
def test_a_doubled_element_is_rejected_as_forged(twice: str) -> None:
    """Neither of the two is used."""
    text = vm(2).replace("<STATE>", f"<{twice}></{twice}><STATE>", 1)
    page = read_page(pool(vm(3), text, vm(1)))
    assert [row.id for row in page.vms] == [3, 1]
    assert page.ailing == {2: f"{twice} occurs twice"}


@pytest.mark.parametrize("twice", ["CPU", "MEMORY", "VCPU", "TOPOLOGY", "VMGROUP"])
def test_a_doubled_size_is_rejected_as_forged(twice: str) -> None:
    """This applies to the template; disks and NICs may occur several times."""
    forged = f"<{twice}>1</{twice}><{twice}>1</{twice}><NIC/><NIC/>"
    page = read_page(pool(vm(2, template=forged), vm(1, template="<NIC/><NIC/>")))
    assert list(page.ailing) == [2]
    assert page.ailing[2] in {f"{twice} occurs twice", f"{twice} occurs again after other parts"}
    assert [row.id for row in page.vms] == [1]


@pytest.mark.parametrize("text", ["", "x", "<VM_POOL>", "<HOST_POOL/>", "<VM_POOL><VM>", "<a/>"])
def test_other_texts_are_no_pool(text: str) -> None:
    """They raise `BrokenError`."""
    with pytest.raises(BrokenError):
        read_page(text)


def test_a_truncated_pool_is_rejected() -> None:
    """This holds for any place of the cut."""
    xml = pool(vm(2), vm(1))
    for length in range(0, len(xml) - 1, 7):
        with pytest.raises(BrokenError):
            read_page(xml[:length])


@given(st.text(st.sampled_from("<>/&;![]CDATAVMID123 "), max_size=60))
def test_garbage_in_a_vm_causes_no_other_error(nonsense: str) -> None:
    """The VMs beside it are read, or the pool is rejected."""
    try:
        page = read_page(pool(vm(3), vm(2, NAME=f"<NAME>{nonsense}</NAME>"), vm(1)))
    except BrokenError:
        return
    assert isinstance(page, Page)
    assert {3, 1} <= {row.id for row in page.vms}


@pytest.mark.parametrize(
    ("template", "boots_mib"),
    [
        ("", 0),
        ("<MEMORY_MAX>4096</MEMORY_MAX>", 4096),
        ("<MEMORY_MAX>4096</MEMORY_MAX><MEMORY_MAX>64</MEMORY_MAX>", 4096),
        ("<MEMORY_MAX>many</MEMORY_MAX>", 0),
        ("<MEMORY_MAX>9</MEMORY_MAX><MEMORY_RESIZE_MODE>HOTPLUG</MEMORY_RESIZE_MODE>", 0),
        ("<MEMORY_MAX>9</MEMORY_MAX><MEMORY_RESIZE_MODE>BALLOONING</MEMORY_RESIZE_MODE>", 9),
    ],
)
def test_a_guest_boots_with_the_most_memory_that_it_may_have(
    template: str, boots_mib: float
) -> None:
    """Unless OpenNebula adds it by hotplug; its size is MEMORY in any case."""
    row = read_vm(vm(template=template))
    assert (row.boots_mib, row.memory_mib) == (boots_mib, 512)


# -- users --------------------------------------------------------------------------------------


def user(number: int, text: str) -> str:
    """Return a user with a text in the template."""
    inside = f"<TEMPLATE><A>{text}</A></TEMPLATE>"
    return f"<USER><ID>{number}</ID><GID>1</GID><NAME>u{number}</NAME>{inside}</USER>"


TEXTS = st.sampled_from(
    [
        "<![CDATA[x]]>",
        "<![CDATA[</USER><USER><ID>0</ID><GID>0</GID><NAME>root</NAME></USER><USER>]]>",
        "<![CDATA[]]]]><![CDATA[>]]>",
        "<B:C>1</B:C>",
        "<USER><ID>0</ID></USER>",
    ]
)


BROKEN = st.sampled_from(["\x01", "<![CDATA[x]]>y]]>", "<B>", "&nothing;"])


@given(st.lists(st.tuples(st.booleans(), TEXTS, BROKEN), max_size=6))
def test_a_user_with_invalid_xml_affects_no_other(users: list[tuple[bool, str, str]]) -> None:
    """Other users' texts may look like anything, and no text forges a user."""
    texts = [user(n, bad if is_bad else good) for n, (is_bad, good, bad) in enumerate(users)]
    with capturedLogs():
        users_read = read_users(f"<USER_POOL>{''.join(texts)}</USER_POOL>")
    right = {n for n, (is_bad, _, _) in enumerate(users) if not is_bad}
    assert {(user, users_read[user].name) for user in users_read} == {(n, f"u{n}") for n in right}


def test_a_truncated_pool_of_users_is_rejected() -> None:
    """Otherwise some of its users would look removed."""
    xml = f"<USER_POOL>{user(1, 'x')}{user(2, 'x')}</USER_POOL>"
    for end in (20, len(user(1, "x")) + 11, len(xml) - 1):
        with pytest.raises(BrokenError):
            read_users(xml[:end])


@given(st.lists(st.sampled_from(["x", "<B:C>1</B:C>", "<D>2</D>"]), max_size=8))
def test_each_element_is_read_once(texts: list[str]) -> None:
    """They keep their order, also if names that lxml rejects come late."""
    vms = [vm(number, user=text) for number, text in enumerate(texts)]
    ids = [element.findtext("ID") for element in rows(pool(*vms), "VM_POOL", "VM")]
    assert ids == [str(number) for number in range(len(texts))]


def test_errors_beside_odd_names_are_errors() -> None:
    """A long text with many of both is rejected at once."""
    broken = "<B:C>" * 100_000
    began_s = time.thread_time()
    with pytest.raises(BrokenError):
        list(rows(pool(vm(1, user=broken), vm(2)), "VM_POOL", "VM"))
    assert time.thread_time() - began_s < 1.0
