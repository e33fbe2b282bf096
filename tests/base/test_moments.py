"""Durations and times have bounds, and any stored value can be displayed."""

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
from merkatd.platforms.declarations.template_time import TemplateTime, moment, moment_of_text
from merkatd.platforms.lifecycle.template_reader import (
    read_stored,
    read_template,
)
from merkatd.web.layout.widgets import deadline
from merkatd.web.layout.widgets import moment as moment_on_page
from tests.platforms.site import template

ANY = st.floats(allow_nan=True, allow_infinity=True)


@given(ANY)
def test_any_number_can_be_displayed_as_a_time(at_s: float) -> None:
    """Pages, tables and sentences show any number as a time within the bounds."""
    assert EARLIEST_S <= bounded(at_s) <= LATEST_S
    assert utc(at_s).year in range(1970, 2101)
    for shown in (moment_on_page(at_s), deadline(at_s, 1e9), time_text(at_s), utc_text(at_s)):
        assert shown


@given(st.text(alphabet="0123456789.smhd", max_size=24) | st.datetimes(timezones=st.just(UTC)))
def test_times_that_are_read_are_within_the_bounds(value: str | datetime) -> None:
    """Any text of a tenant gives a time within the bounds or a `ValueError`."""
    try:
        read_moment = moment(value)
    except ValueError:
        return
    assert EARLIEST_S <= read_moment.seconds(1e9) <= LATEST_S
    assert read_moment.after_s is None or read_moment.after_s <= LONGEST_S


@pytest.mark.parametrize("text", ["999999999999d", "3651d", "315360001s"])
def test_a_duration_beyond_its_bound_is_an_error(text: str) -> None:
    """The message names the largest duration."""
    with pytest.raises(OutOfBoundsError, match="at most 3650d"):
        duration(text)
    assert duration("3650d") == LONGEST_S


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2100-01-02T00:00Z"]
)
def test_a_time_beyond_its_bounds_is_an_error(text: str) -> None:
    """Templates and changes of templates have the same bounds."""
    with pytest.raises(ValueError, match="from the years 1970 to 2099"):
        moment_of_text(text)


LATE = '[slo]\ndeadline = "999999999999d"\nideal_run = "999999999999d"'


def test_a_template_stored_without_bounds_is_still_readable() -> None:
    """Stored times become the nearest valid ones; a new template with them is rejected."""
    text = template(slo=LATE, start="[start]\nnot_before = 9999-12-31T23:59:59Z")
    with pytest.raises(TemplateError, match="at most 3650d"):
        read_template(text)
    parsed = read_stored(text)
    assert parsed.goal.deadline == TemplateTime(after_s=LONGEST_S)
    assert parsed.goal.ideal_s == LONGEST_S
    assert parsed.start.not_before == TemplateTime(at_s=LATEST_S)
