"""All that others wrote stays text, whatever it looks like."""

import pytest

from merkatd.web.markup import Markup, h
from merkatd.web.pages.parts import bar, credits_, span, steps_table
from merkatd.web.pages.vm_rows import vms_table

SCRIPT = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"
VM = {
    "id": 1,
    "name": SCRIPT,
    "owner": 2,
    "owner_name": SCRIPT,
    "state": SCRIPT,
    "host": SCRIPT,
    "bid_cpu": 1.0,
    "cpu": 100.0,
    "memory": 1024.0,
    "cost": 0.5,
    "message": SCRIPT,
}
STEP = {
    "period": 1,
    "at_s": 0.0,
    "kind": "migrate",
    "vm": 1,
    "name": SCRIPT,
    "source": SCRIPT,
    "host": SCRIPT,
    "reason": SCRIPT,
    "state": "refused",
    "reply": SCRIPT,
}


@pytest.mark.parametrize(
    "text", [vms_table([VM], {SCRIPT: 7}), vms_table([VM], {}), steps_table([STEP], {})]
)
def test_a_script_in_a_name_stays_text(text: str) -> None:
    """In every column of the tables of VMs and of decisions."""
    assert "<script" not in text
    assert text.count(ESCAPED) >= 5


def test_text_can_leave_no_attribute() -> None:
    """Quotes in it are escaped as well."""
    made = h("a", "'\"<&", href='/"onclick="alert(1)', title="'")
    assert made == (
        '<a href="/&quot;onclick=&quot;alert(1)" title="&#x27;">&#x27;&quot;&lt;&amp;</a>'
    )


def test_parts_are_put_together() -> None:
    """Lists in lists, numbers, and nothing; attributes that are false are left out."""
    assert h("p", [1, [" ", None, Markup("<b>b</b>")]]) == "<p>1 <b>b</b></p>"
    assert h("input", disabled=True, checked=False, value=0) == '<input disabled value="0">'


def test_numbers_are_for_people() -> None:
    """Short, and never so short that something looks like nothing."""
    assert [credits_(one) for one in (None, 0.0, 0.00123, 1.5, 12345.6)] == [
        "\N{EN DASH}",
        "0.00",
        "0.00123",
        "1.50",
        "12,346",
    ]
    assert [span(one) for one in (0, 59, 61, 3600, 7300, 90_000)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "1 h",
        "2 h 1 min",
        "1 d 1 h",
    ]
    assert 'width="100.0"' in bar(7.0)
