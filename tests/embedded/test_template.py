"""Templates in both syntaxes."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from merkatd.embedded.model.template_text import ParseError, Template, parse
from tests.embedded.support import Bench, xml

NAMES = st.from_regex(r"[A-WYZ][A-Z0-9_]{0,8}", fullmatch=True)
TEXTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\\\ufffe\uffff"), max_size=20
)


def test_names_become_upper_case_and_values_are_text() -> None:
    """Values stay as written, without their quotes."""
    template = parse(
        'cpu = 0.5\nbid="a \\"b\\" c"\nNOTE=\nMerkat=[cpu="3",Memory = 4 ]\n# a comment\n'
    )
    assert template.get("CPU") == "0.5"
    assert template.get("BID") == 'a "b" c'
    assert "NOTE" in template.names()
    assert template.vector("MERKAT") == {"CPU": "3", "MEMORY": "4"}


def test_a_vector_may_span_lines_and_repeat() -> None:
    """Two disks are two attributes in their order."""
    template = parse('DISK=[ IMAGE="a",\n  SIZE=1 ]\nDISK=[\n IMAGE=b ]\nEMPTY=[]')
    disks = [value for name, value in template.attributes if name == "DISK"]
    assert disks == [(("IMAGE", "a"), ("SIZE", "1")), (("IMAGE", "b"),)]


def test_xml_templates_mean_the_same() -> None:
    """The XML form gives the same template as the plain form."""
    text = "<TEMPLATE><CPU>1</CPU><MERKAT><CPU><![CDATA[3 < 4]]></CPU></MERKAT></TEMPLATE>"
    assert parse(text) == parse('CPU=1 MERKAT=[CPU="3 < 4"]')


@given(st.dictionaries(NAMES, TEXTS, max_size=5))
def test_rendered_templates_survive_parsing(values: dict[str, str]) -> None:
    """Any text survives rendering and parsing, and empty values are left out."""
    template = Template.of(values.items())
    kept = Template.of((name, text) for name, text in values.items() if text)
    assert parse(template.xml("TEMPLATE")) == kept


@given(st.dictionaries(NAMES, TEXTS, min_size=1, max_size=4))
def test_quoted_values_are_read_unchanged(values: dict[str, str]) -> None:
    """Quotes in the plain syntax may contain any text, except for the end of a CDATA section."""
    assume(not any("]]>" in text for text in values.values()))
    lines = [
        f'{name} = "{text.replace(chr(34), chr(92) + chr(34))}"' for name, text in values.items()
    ]
    assert parse("\n".join(lines)) == Template.of(values.items())


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("CPU", "line 1, columns 4"),
        ("CPU=1\nMEMORY=[A=1", "line 2"),
        ("CPU=1\n=3", "line 2, columns 1"),
        ('A="a" B', "line 1, columns 8"),
        ("A=[B]", "line 1"),
    ],
)
def test_errors_name_the_place(text: str, where: str) -> None:
    """An unreadable template gives an error with line and column."""
    with pytest.raises(ParseError, match=where):
        parse(text)


def test_broken_templates_fail_with_8192() -> None:
    """Both syntaxes fail in creations and updates, with the method's name first."""
    bench = Bench()
    code, text = bench.refused("one.vm.allocate", "CPU=1\nMEMORY=")
    assert (code, text[:17]) == (8192, "[one.vm.allocate]")
    assert bench.refused("one.vm.allocate", "CPU=[")[1].count("Parse error") == 1
    assert bench.refused("one.vm.allocate", "<A><B></A>")[0] == 8192
    vm_id = bench.new()
    code, text = bench.refused("one.vm.update", vm_id, "A=[", 1)
    assert code == 2048
    assert text.startswith("[one.vm.update] Parse error")


def test_bids_appear_in_the_user_template() -> None:
    """Single and vector attributes appear in infoextended's user template."""
    bench = Bench()
    bench.new('CPU=1 MEMORY=64 merkat_bid_cpu=3\nmerkat=[cpu="4"]')
    pool = xml(bench.ok("one.vmpool.infoextended", -2, -1, -1, -1))
    assert pool.findtext("VM/USER_TEMPLATE/MERKAT_BID_CPU") == "3"
    assert pool.findtext("VM/USER_TEMPLATE/MERKAT/CPU") == "4"


def test_updates_replace_or_append() -> None:
    """Type 0 replaces the whole user template, and type 1 only the named attributes."""
    bench = Bench()
    vm_id = bench.new("CPU=1 MEMORY=64 A=1 B=2")
    bench.ok("one.vm.update", vm_id, "B=3 C=4", 1)
    assert bench.vm(vm_id).user_template == parse("A=1 B=3 C=4")
    bench.ok("one.vm.update", vm_id, "D=5", 0)
    assert bench.vm(vm_id).user_template == parse("D=5")
    assert bench.refused("one.vm.update", vm_id, "D=5", 2)[0] == 4096
