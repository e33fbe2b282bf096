"""The frame fits every terminal size and shows every tenant."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.demo.demo_script import CAST
from merkatd.demo.screen.coloured_text import (
    bare,
    chart,
    painted,
    progress,
    wrapped,
)
from merkatd.demo.screen.display_state import DisplayedDecision, DisplayState
from merkatd.demo.screen.terminal_colours import Colours
from merkatd.demo.screen.terminal_frame import frame
from tests.demo.states import busy
from tests.lengths import EXAMPLES


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (200, 24), (140, 30)])
@pytest.mark.parametrize("hosts", [1, 4, 40])
def test_the_frame_fits_and_shows_every_tenant(width: int, height: int, hosts: int) -> None:
    """Each line has the terminal's width, and a note counts the hosts that are cut off."""
    lines = [bare(line) for line in frame(busy(hosts), width, height)]
    assert len(lines) <= height
    assert {len(line) for line in lines} == {width}
    for tenant in CAST:
        assert any(f" {tenant.name} " in line and tenant.character in line for line in lines)
    if hosts == 40:
        assert any(line.startswith("and ") and " more" in line for line in lines)


def test_the_frame_is_complete_at_80_by_24() -> None:
    """It shows hosts, both prices, a command to try, and the newest decision."""
    text = "\n".join(bare(line) for line in frame(busy(), 80, 24))
    for shown in ("period 37", "0:23", "merkatd.toml", "host003", "a core", "a GiB", "123456"):
        assert shown in text
    assert "migrate VM 59: for a reason" in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 50)])
def test_real_guests_show_their_used_cores(width: int, height: int) -> None:
    """Used cores stand beside allocated ones; simulated guests have no such column."""
    state = busy()
    away, first, *others = (replace(tenant, got=0.37) for tenant in state.tenants)
    real = replace(state, tenants=(away, first, *others))
    lines = [bare(line) for line in frame(real, width, height)]
    assert {len(line) for line in lines} == {width}
    heading = next(line for line in lines if line.startswith("TENANTS"))
    assert heading.index(" cores  got ") > 0
    row = next(line for line in lines if f" {first.name} " in line)
    assert row[: heading.index(" got ") + 4].endswith(f"{first.cores:.2f} 0.37")
    assert not any(" got " in bare(line) for line in frame(state, width, height)[:12])


def test_reasons_are_complete_at_200_columns() -> None:
    """Long reasons are wrapped instead of cut."""
    lines = [bare(line) for line in frame(busy(decisions=3), 200, 50)]
    assert sum(line.count("reason") for line in lines) == 27
    assert not any("…" in line for line in lines)


@settings(max_examples=EXAMPLES)
@given(st.integers(1, 260), st.integers(1, 80), st.integers(0, 12), st.sampled_from(Colours))
def test_no_size_breaks_the_frame(width: int, height: int, hosts: int, colours: Colours) -> None:
    """Tiny terminals get a valid frame too."""
    for state in (DisplayState(), busy(hosts)):
        lines = frame(state, width, height, colours)
        assert len(lines) <= height
        assert all(len(bare(line)) == width for line in lines)


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_first_line_says_what_the_screen_shows(width: int) -> None:
    """It has the numbers of tenants and hosts, and explains bars and blocks if there is room."""
    text = bare(frame(busy(), width, 24)[0])
    assert "Seven tenants bid for 4 hosts" in text
    assert "…" not in text
    assert ("a bar is a host" in text.lower() or "each bar is a host" in text.lower()) == (
        width >= 80
    )
    letters = bare(frame(busy(), 80, 24, Colours.NONE)[0])
    assert "each letter" in letters
    assert "block" not in letters


def test_the_start_is_explained_while_it_lasts() -> None:
    """Before the first period the screen says what the demo does, and for how long it has."""
    state = DisplayState(doing="compiling the strategy: 12 s", left_s=60.0)
    text = "\n".join(bare(line) for line in frame(state, 80, 24))
    assert "compiling the strategy: 12 s" in text
    assert "starting" in text
    assert "1:00" in text


def test_the_title_says_when_the_machine_is_too_slow() -> None:
    """The remaining time stays on the screen, because it passes more slowly."""
    title = bare(frame(replace(busy(), speed_part=0.456), 80, 24)[1])
    assert "46% speed" in title
    assert "0:23" in title
    assert "speed" not in bare(frame(busy(), 80, 24)[1])


def test_pauses_and_failures_are_shown() -> None:
    """They are in the first line."""
    title = bare(frame(replace(busy(), paused=True, failures=2), 80, 24)[1])
    assert "paused" in title
    assert "2 periods failed" in title


def test_progress_marks_the_time() -> None:
    """The bar shows the work before the mark, after it, and missing."""
    assert bare(progress(0.5, 0.2, 10)) == "██┃██·····"
    assert bare(progress(0.2, 0.6, 10)) == "██░░░░┃···"
    assert bare(progress(1.0, 2.0, 10)) == "█████████┃"


def test_charts_reach_from_zero_to_the_maximum() -> None:
    """Infinite prices, as in a market that does not clear, are drawn as zero."""
    assert chart([0.0, 1.0, float("inf"), 8.0], 9, 1) == ["▁▁▁█"]
    assert chart([1.0, 2.0], 9, 2) == [" █", "██"]
    assert chart([1.0] * 20, 5, 1) == ["█████"]
    assert chart([], 5, 1) == [""]


def test_wrapped_text_loses_nothing() -> None:
    """Words longer than a line are broken."""
    assert wrapped("one two three", 8, 5) == ["one two", "three"]
    assert wrapped("abcdefghij", 4, 3) == ["abcd", "efg", "hij"]


def test_no_name_moves_the_cursor() -> None:
    """Users choose the names of VMs, so control characters are removed."""
    displayed = DisplayedDecision(period=1, tenant=-1, what="deploy \x1b[2J", why="line\nbreak")
    text = "".join(painted(line) for line in frame(DisplayState(decisions=(displayed,)), 80, 24))
    assert "\x1b[2J" not in text
    assert "\n" not in text
