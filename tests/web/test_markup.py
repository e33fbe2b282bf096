"""All texts of users stay text, whatever they contain."""

import json
import re
from html import unescape

import numpy as np
import pytest

from merkatd.base.quantities import duration_text
from merkatd.service.market.step_history import StepRow
from merkatd.web.layout.html import Markup, compact, element
from merkatd.web.layout.widgets import bar, credits_text, percent, steps_table
from merkatd.web.pages.row_tables import vms_table
from tests.web.presents import view_of

SCRIPT = "<script>alert(1)</script>"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"
NOW = view_of(1, [0], np.array([[100.0, 1024.0]]), SCRIPT)
STEP = StepRow(
    id="1",
    period=1,
    at_s=0.0,
    sent_s=None,
    ended_s=None,
    kind="migrate",
    vm=1,
    name=SCRIPT,
    source=SCRIPT,
    host=SCRIPT,
    state="refused",
    gain=None,
    after=(),
    reason=SCRIPT,
    reply=SCRIPT,
)


@pytest.mark.parametrize(
    "text",
    [vms_table(NOW, {SCRIPT: 7}, [0]), vms_table(NOW, {}, [0]), steps_table([STEP], {})],
)
def test_a_script_in_a_name_stays_text(text: str) -> None:
    """This holds for every column of the tables of VMs and of decisions."""
    assert "<script" not in text
    assert text.count(ESCAPED) >= 5


def test_data_for_scripts_stay_inside_their_attribute() -> None:
    """The data survive, whatever names they contain."""
    box = element("div", data_hosts=compact([{"name": f"'{SCRIPT}\"&quot;\n"}]))
    match = re.fullmatch(r'<div data-hosts="([^"<>]*)"></div>', box)
    assert match is not None
    assert json.loads(unescape(match[1])) == [{"name": f"'{SCRIPT}\"&quot;\n"}]


def test_text_stays_inside_its_attribute() -> None:
    """Quotes are escaped as well."""
    made = element("a", "'\"<&", href='/"onclick="alert(1)', title="'")
    assert made == (
        '<a href="/&quot;onclick=&quot;alert(1)" title="&#x27;">&#x27;&quot;&lt;&amp;</a>'
    )


def test_parts_are_joined() -> None:
    """Lists in lists, numbers and None are joined, and false attributes are left out."""
    assert element("p", [1, [" ", None, Markup("<b>b</b>")]]) == "<p>1 <b>b</b></p>"
    assert element("input", disabled=True, checked=False, value=0) == '<input disabled value="0">'


def test_numbers_are_short() -> None:
    """They are short, but a small number is never shown as zero."""
    assert [credits_text(amount) for amount in (None, 0.0, 0.00123, 1.5, 12345.6)] == [
        "\N{EN DASH}",
        "0",
        "0.00123",
        "1.5",
        "12,346",
    ]
    assert [duration_text(seconds) for seconds in (0, 59, 61, 3600, 7300, 90_000)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "1 h",
        "2 h 1 min",
        "1 d 1 h",
    ]
    assert 'width="100.0"' in bar(7.0)


def test_almost_done_is_not_100_percent() -> None:
    """Unfinished work is never shown as 100%."""
    assert [percent(part) for part in (None, 0.0, 0.5, 0.997, 1.0, 1.2)] == [
        "\N{EN DASH}",
        "0%",
        "50%",
        "99%",
        "100%",
        "100%",
    ]
