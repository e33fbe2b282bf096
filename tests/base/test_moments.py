"""Durations and moments have bounds, and whatever is stored can be shown."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.base.quantities import (
    EARLIEST_S,
    LATEST_S,
    LONGEST_S,
    OutOfBoundsError,
    bounded,
    time_text,
    utc,
    utc_text,
)
from merkatd.base.toml_reader import duration
from merkatd.fleets.vm_template_text import TemplateError
from merkatd.platforms.lifecycle.platform_template import TemplateTime
from merkatd.platforms.lifecycle.template_reader import (
    moment,
    moment_of_text,
    read_stored,
    read_template,
)
from merkatd.web.layout.widgets import deadline
from merkatd.web.layout.widgets import moment as moment_on_page
from tests.platforms.site import template

ANY = st.floats(allow_nan=True, allow_infinity=True)


@given(ANY)
def test_any_number_is_a_moment_that_can_be_shown(at_s: float) -> None:
    """On a page, in a table, in a sentence."""
    assert EARLIEST_S <= bounded(at_s) <= LATEST_S
    assert utc(at_s).year in range(1970, 2101)
    for shown in (moment_on_page(at_s), deadline(at_s, 1e9), time_text(at_s), utc_text(at_s)):
        assert shown


@given(st.text(alphabet="0123456789.smhd", max_size=24) | st.datetimes(timezones=st.just(UTC)))
def test_what_is_read_is_within_the_bounds(value: str | datetime) -> None:
    """Whatever a tenant writes."""
    try:
        found = moment(value)
    except ValueError:
        return
    assert EARLIEST_S <= found.seconds(1e9) <= LATEST_S
    assert found.after_s is None or found.after_s <= LONGEST_S


@pytest.mark.parametrize("text", ["999999999999d", "3651d", "315360001s"])
def test_a_duration_beyond_its_bound_is_refused(text: str) -> None:
    """With the bound in the words."""
    with pytest.raises(OutOfBoundsError, match="at most 3650d"):
        duration(text)
    assert duration("3650d") == LONGEST_S


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2100-01-02T00:00Z"]
)
def test_a_moment_beyond_its_bounds_is_refused(text: str) -> None:
    """As a template has it, and as a change has it."""
    with pytest.raises(ValueError, match="from the years 1970 to 2099"):
        moment_of_text(text)


LATE = '[slo]\ndeadline = "999999999999d"\nideal_run = "999999999999d"'


def test_a_template_that_was_stored_without_bounds_can_still_be_read() -> None:
    """Its times count as the nearest that there may be; a new one is refused."""
    text = template(slo=LATE, start="[start]\nnot_before = 9999-12-31T23:59:59Z")
    with pytest.raises(TemplateError, match="at most 3650d"):
        read_template(text)
    found = read_stored(text)
    assert found.goal.deadline == TemplateTime(after_s=LONGEST_S)
    assert found.goal.ideal_s == LONGEST_S
    assert found.start.not_before == TemplateTime(at_s=LATEST_S)
