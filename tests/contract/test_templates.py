"""Templates: names, vectors, characters, numbers, and the effect of updates."""

from __future__ import annotations

import xmlrpc.client
from typing import TYPE_CHECKING

import pytest

from tests.contract.endpoint import SMALL

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

LETTERS = [
    "plain", "ünïcödé ☃ 漢字", "a & b", "<b>x</b>", "'single'", "tab\there", "two\nlines",
    "100 %", "$HOME", "#no comment", "a=b, c=[d]", "back\\slash", " blanks ",
]  # fmt: skip


def shown(endpoint: Endpoint, vm: int, path: str) -> str | None:
    """Return a text of a VM."""
    return endpoint.xml("one.vm.info", vm).findtext(path)


@pytest.mark.parametrize("text", LETTERS)
def test_texts_are_returned_unchanged(endpoint: Endpoint, text: str) -> None:
    """Creations and updates keep them, in OpenNebula's syntax and in XML.

    From 7.0 on blanks at the ends are removed.
    """
    kept = text if endpoint.version < (7, 0) else text.strip()
    vm = endpoint.new(f'{SMALL}NOTE="{text}"\n')
    assert shown(endpoint, vm, "USER_TEMPLATE/NOTE") == kept
    endpoint.ok("one.vm.update", vm, f'OTHER="{text}"', 1)
    assert shown(endpoint, vm, "USER_TEMPLATE/OTHER") == kept
    inside = text.replace("&", "&amp;").replace("<", "&lt;")
    endpoint.ok("one.vm.update", vm, f"<T><THIRD>{inside}</THIRD></T>", 1)
    assert shown(endpoint, vm, "USER_TEMPLATE/THIRD") == kept


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (r'"say \"yes\""', 'say "yes"'),
        (r'"ends with \"', "ends with \\"),
        (r'"two \\"', "two \\\\"),
        (r'"two \\", FOO="bar"', None),
        (r'"a\n\t\\b"', r"a\n\t\\b"),
    ],
)
def test_quotes_are_escaped(endpoint: Endpoint, written: str, kept: str | None) -> None:
    """A backslash escapes a quote unless no quote follows; other backslashes stay."""
    answer = endpoint.raw("one.vm.allocate", f"{SMALL}NOTE={written}\n", False)
    assert answer[0] is (kept is not None), answer
    if kept is not None:
        assert shown(endpoint, answer[1], "USER_TEMPLATE/NOTE") == kept


def test_characters_beyond_the_basic_plane_are_faults(endpoint: Endpoint) -> None:
    """The server's XML-RPC can't read them: -503, and nothing changes."""
    vm = endpoint.new()
    with pytest.raises(xmlrpc.client.Fault) as caught:
        endpoint.raw("one.vm.update", vm, 'NOTE="\N{GRINNING FACE}"', 1)
    assert caught.value.faultCode == -503


def test_names_become_upper_case_and_vectors_become_elements(endpoint: Endpoint) -> None:
    """This holds for single attributes, and for vectors and their contents."""
    vm = endpoint.new(SMALL + 'merkat_bid_cpu="3"\nmerkat=[cpu="4", Memory="5"]\n')
    assert shown(endpoint, vm, "USER_TEMPLATE/MERKAT_BID_CPU") == "3"
    assert shown(endpoint, vm, "USER_TEMPLATE/MERKAT/CPU") == "4"
    assert shown(endpoint, vm, "USER_TEMPLATE/MERKAT/MEMORY") == "5"


def test_in_xml_only_the_outer_names_become_upper_case(endpoint: Endpoint) -> None:
    """Empty and deeper nested elements are left out."""
    vm = endpoint.new(
        "<TEMPLATE><CPU>1</CPU><MEMORY>64</MEMORY><note>x</note><v><In>1</In></v><E/>"
        "<D><B><C>1</C></B></D></TEMPLATE>"
    )
    assert shown(endpoint, vm, "USER_TEMPLATE/NOTE") == "x"
    assert shown(endpoint, vm, "USER_TEMPLATE/V/In") == "1"
    names = {row.tag for row in endpoint.xml("one.vm.info", vm).iterfind("USER_TEMPLATE/*")}
    assert names == {"NOTE", "V"}


def test_names_that_are_invalid_in_xml_get_a_prefix(endpoint: Endpoint) -> None:
    """The new name is valid in XML."""
    vm = endpoint.new(SMALL + '1st="x"\n')
    assert shown(endpoint, vm, "USER_TEMPLATE/ONE_1ST") == "x"


def test_names_may_occur_more_than_once(endpoint: Endpoint) -> None:
    """All values are kept in order; an update with the name replaces all."""
    vm = endpoint.new(SMALL + 'A="1"\nA="2"\nB=[C="1"]\nB=[C="2"]\nEMPTY=[]\nBLANK=""\n')
    inside = endpoint.xml("one.vm.info", vm).find("USER_TEMPLATE")
    assert inside is not None
    assert [row.text for row in inside.iterfind("A")] == ["1", "2"]
    assert [row.text for row in inside.iterfind("B/C")] == ["1", "2"]
    assert inside.find("EMPTY") is None
    assert inside.find("BLANK") is not None
    endpoint.ok("one.vm.update", vm, 'A="3"', 1)
    shown_a = endpoint.xml("one.vm.info", vm).iterfind("USER_TEMPLATE/A")
    assert [row.text for row in shown_a] == ["3"]


def test_an_update_replaces_all_attributes_or_those_it_names(endpoint: Endpoint) -> None:
    """0 replaces, 1 appends; the VM's own template stays."""
    vm = endpoint.new(SMALL + 'A="1"\nB="2"\n')
    endpoint.ok("one.vm.update", vm, 'B="3"\nC="4"\nCPU="7"', 1)
    inside = endpoint.xml("one.vm.info", vm)
    assert [inside.findtext(f"USER_TEMPLATE/{name}") for name in "ABC"] == ["1", "3", "4"]
    assert inside.findtext("TEMPLATE/CPU") == "1"
    endpoint.ok("one.vm.update", vm, 'D="5"', 0)
    inside = endpoint.xml("one.vm.info", vm)
    assert [row.tag for row in inside.iterfind("USER_TEMPLATE/*")] == ["D"]


def test_hosts_and_users_are_updated_in_the_same_way(endpoint: Endpoint) -> None:
    """They may have any attributes."""
    host = endpoint.hosts[0]
    endpoint.ok("one.host.update", host, 'RACK="7"\nMERKAT=[A="b"]', 1)
    inside = endpoint.xml("one.host.info", host)
    assert inside.findtext("TEMPLATE/RACK") == "7"
    assert inside.findtext("TEMPLATE/MERKAT/A") == "b"
    assert inside.findtext("TEMPLATE/IM_MAD") == "dummy"
    user, session = endpoint.user()
    endpoint.ok("one.user.update", user, 'MERKAT_WEIGHT="2"', 1, session=session)
    assert endpoint.xml("one.user.info", user).findtext("TEMPLATE/MERKAT_WEIGHT") == "2"


def test_a_schedulers_message_is_an_attribute(endpoint: Endpoint) -> None:
    """It may have any text; an empty one replaces it."""
    vm = endpoint.new()
    endpoint.ok("one.vm.update", vm, 'SCHED_MESSAGE="no host has <4> & more"', 1)
    assert shown(endpoint, vm, "USER_TEMPLATE/SCHED_MESSAGE") == "no host has <4> & more"
    endpoint.ok("one.vm.update", vm, 'SCHED_MESSAGE=""', 1)
    assert shown(endpoint, vm, "USER_TEMPLATE/SCHED_MESSAGE") == ""


@pytest.mark.parametrize(
    ("cpu", "as_shown"),
    [
        ("1", "1"), ("0.5", "0.5"), ("1.50", "1.5"), ("1e1", "10"), (".25", "0.25"),
        ("0.333333333", "0.333333"), ("1234.5678", "1234.57"),
    ],
)  # fmt: skip
def test_cpu_is_shown_with_six_digits(endpoint: Endpoint, cpu: str, as_shown: str) -> None:
    """This holds for any notation."""
    vm = endpoint.new(f"CPU={cpu}\nMEMORY=64\n")
    assert shown(endpoint, vm, "TEMPLATE/CPU") == as_shown


@pytest.mark.parametrize(
    "name", ["web", "web 1", "ünïcödé ☃", "a.b-c_d", "(x) [y] = z, ~", "n" * 128]
)
def test_valid_names_are_returned_unchanged(endpoint: Endpoint, name: str) -> None:
    """The pool shows them too."""
    vm = endpoint.new(f'{SMALL}NAME="{name}"\n')
    assert shown(endpoint, vm, "NAME") == name
    assert endpoint.pool("one.vmpool.info", -2, -1, -1, -1)[vm].findtext("NAME") == name
    endpoint.ok("one.vm.rename", vm, "other")
    assert shown(endpoint, vm, "NAME") == "other"


def test_a_vm_without_a_name_gets_a_name(endpoint: Endpoint) -> None:
    """The name contains its id."""
    vm = endpoint.new()
    assert shown(endpoint, vm, "NAME") == f"one-{vm}"


@pytest.mark.parametrize("letter", "&|:;/'#{}$<>")
def test_characters_not_allowed_in_names_are_refused(endpoint: Endpoint, letter: str) -> None:
    """Creations answer 8192, renamings 2048."""
    text = f"Invalid NAME, char '{letter}' is not allowed"
    assert endpoint.refused("one.vm.allocate", f'{SMALL}NAME="a{letter}b"\n') == (
        8192,
        f"[one.vm.allocate] {text}",
    )
    vm = endpoint.new()
    assert endpoint.refused("one.vm.rename", vm, f"a{letter}b") == (
        2048,
        f"[one.vm.rename] {text}",
    )


def test_names_have_at_most_128_bytes(endpoint: Endpoint) -> None:
    """They have at least one byte."""
    code, text = endpoint.refused("one.vm.allocate", f'{SMALL}NAME="{"ü" * 65}"\n')
    assert (code, "max length is 128" in text) == (8192, True)
    assert endpoint.refused("one.vm.rename", endpoint.new(), "")[0] == 2048


def test_a_pinned_vm_has_the_requirements_of_pinning(endpoint: Endpoint) -> None:
    """It requires pinning hosts and whole cores, and shows its NUMA nodes."""
    before = "!(PUBLIC_CLOUD = YES) & " if endpoint.version < (7, 0) else ""
    vm = endpoint.new('CPU=1\nVCPU=2\nMEMORY=64\nTOPOLOGY=[PIN_POLICY="CORE"]\n')
    inside = endpoint.xml("one.vm.info", vm)
    assert inside.findtext("TEMPLATE/AUTOMATIC_REQUIREMENTS") == f"{before}(PIN_POLICY = PINNED)"
    assert inside.findtext("TEMPLATE/CPU") == "2"
    assert inside.findtext("TEMPLATE/NUMA_NODE/TOTAL_CPUS") == "2"
    assert inside.findtext("TEMPLATE/NUMA_NODE/MEMORY") == str(64 * 1024)
    free = endpoint.xml("one.vm.info", endpoint.new())
    assert free.findtext("TEMPLATE/AUTOMATIC_REQUIREMENTS") == f"{before}!(PIN_POLICY = PINNED)"


def test_requirements_and_ranks_are_stored_unchanged(endpoint: Endpoint) -> None:
    """The scheduler reads them in the user template."""
    words = 'CLUSTER_ID=0 & !(HOSTNAME="*x*") | RACK @> "7"'
    escaped = words.replace('"', '\\"')
    vm = endpoint.new(
        f'{SMALL}SCHED_REQUIREMENTS="{escaped}"\nSCHED_RANK="-RUNNING_VMS"\n'
        'SCHED_DS_REQUIREMENTS="NAME=system"\n'
    )
    assert shown(endpoint, vm, "USER_TEMPLATE/SCHED_REQUIREMENTS") == words
    assert shown(endpoint, vm, "USER_TEMPLATE/SCHED_RANK") == "-RUNNING_VMS"
    assert shown(endpoint, vm, "USER_TEMPLATE/SCHED_DS_REQUIREMENTS") == "NAME=system"


def test_devices_and_automatic_nics_are_numbered(endpoint: Endpoint) -> None:
    """The numbers start at 0, in order."""
    vm = endpoint.new(
        SMALL + 'NIC=[NETWORK_MODE="auto"]\nNIC=[NETWORK_MODE="auto"]\nPCI=[CLASS="0300"]\n'
    )
    inside = endpoint.xml("one.vm.info", vm)
    assert [row.text for row in inside.iterfind("TEMPLATE/NIC/NIC_ID")] == ["0", "1"]
    assert inside.findtext("TEMPLATE/NIC/NETWORK_MODE") == "auto"
    assert inside.findtext("TEMPLATE/PCI/CLASS") == "0300"
    assert inside.find("TEMPLATE/PCI/PCI_ID") is not None
