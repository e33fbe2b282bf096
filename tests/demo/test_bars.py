"""Bars of hosts are readable on every terminal: blocks with names in colours, else letters."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.demo.demo_script import CAST
from merkatd.demo.screen.coloured_text import bare, painted
from merkatd.demo.screen.host_bars import BarPart, shares
from merkatd.demo.screen.terminal_colours import Colours, colours_of, tenant_style
from tests.lengths import EXAMPLES

COLOURED = [Colours.FEW, Colours.MANY]
LEVELS = (0, 95, 135, 175, 215, 255)
READABLE = 4.5
"""The least contrast of text in the Web Content Accessibility Guidelines, level AA."""


def part(amount: float, name: str, tenant: int = 0) -> BarPart:
    """Return a part with the letter of its name."""
    return BarPart(amount, name[:1].upper(), tenant, name)


@pytest.mark.parametrize("colours", COLOURED)
def test_blocks_are_solid_and_have_names(colours: Colours) -> None:
    """Each column of a block has the tenant's background; the name and the share are inside."""
    bar = shares((part(400, "ana-1"), part(300, "bo-12", 1), part(60, "cy-3", 2)), 800, 54, colours)
    blocks = [piece for piece in bar if piece.style.startswith(("38", "4"))]
    assert [block.text.strip() for block in blocks] == ["ana-1 400", "bo-12 300", "cy-3"]
    assert [len(block.text) for block in blocks] == [27, 20, 4]
    assert len({block.style for block in blocks}) == 3
    assert not any("a" * 3 in block.text for block in blocks)


def test_narrow_blocks_shorten_the_name() -> None:
    """The letter and the number remain, then the letter; the share leaves first."""
    texts = [
        shares((part(width, "ana-12"),), width, width, Colours.MANY)[0].text
        for width in (12, 10, 6, 3, 2, 1)
    ]
    assert texts == [" ana-12 12  ", "ana-12 10 ", "ana-12", "A12", "A ", "A"]


@pytest.mark.parametrize("colours", list(Colours))
def test_neighbours_of_one_tenant_are_distinct(colours: Colours) -> None:
    """Each VM has its own shade, or an edge, or a capital letter."""
    bar = shares(tuple(part(10, f"ana-{at}") for at in range(4)), 40, 40, colours)
    blocks = [piece for piece in bar if piece.text]
    for left, right in pairwise(blocks):
        by_shade = left.style != right.style
        by_edge = right.text.startswith(("▏", "A")) and not left.text.endswith(("▏", "A"))
        assert by_shade or by_edge


def test_without_colours_there_are_letters_only() -> None:
    """Each VM begins with a capital letter, and its share is inside the bar if it fits."""
    bar = shares((part(400, "ana-1"), part(400, "ana-2"), part(80, "bo-1", 1)), 1000, 50)
    assert bare(bar) == "Aaaaaaaa 400 aaaaaaaAaaaaaaa 400 aaaaaaaBbbb······"
    assert "\x1b[4" not in painted(bar)


def test_fractions_of_a_unit_are_shown() -> None:
    """A quarter of a GiB is not rounded to zero."""
    assert "a 0.25 a" in bare(shares((part(0.25, "ana-1"),), 1.0, 60))
    assert " 0.25 " in bare(shares((BarPart(0.25, "A", 0),), 1.0, 60, Colours.MANY))


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.tuples(st.floats(0, 500), st.text(max_size=30), st.integers(-1, 9)), max_size=8),
    st.floats(0, 1000),
    st.integers(0, 100),
    st.sampled_from(Colours),
)
def test_a_bar_has_exactly_its_width(
    rows: list[tuple[float, str, int]], capacity: float, width: int, colours: Colours
) -> None:
    """This holds for any names, and for allocations beyond the capacity, as during migrations."""
    parts = [BarPart(amount, "A", tenant, name) for amount, name, tenant in rows]
    assert len(bare(shares(parts, capacity, width, colours))) == width


def test_every_tenant_is_readable_in_256_colours() -> None:
    """The contrast of the text with both backgrounds is that of a readable page."""
    for tenant in range(len(CAST)):
        styles = {tenant_style(tenant, Colours.MANY, shade) for shade in (0, 1)}
        assert len(styles) == 2
        for style in styles:
            _, _, text, _, _, background = map(int, style.split(";"))
            light, dark = sorted((luminance(background), luminance(text)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= READABLE
    assert len({tenant_style(tenant, Colours.FEW) for tenant in range(len(CAST))}) == len(CAST)


def luminance(colour: int) -> float:
    """Return the relative luminance of a colour of the 256-colour palette, from 16 on."""
    if colour >= 232:
        levels = [8 + 10 * (colour - 232)] * 3
    else:
        rest = colour - 16
        levels = [LEVELS[rest // 36], LEVELS[rest // 6 % 6], LEVELS[rest % 6]]
    parts = [level / 255 for level in levels]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({"TERM": "xterm-256color"}, Colours.MANY),
        ({"TERM": "tmux-256color"}, Colours.MANY),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, Colours.MANY),
        ({"TERM": "linux"}, Colours.FEW),
        ({"TERM": "xterm"}, Colours.FEW),
        ({"TERM": "vt100"}, Colours.NONE),
        ({"TERM": "a-terminal-without-description"}, Colours.FEW),
        ({"TERM": "dumb"}, Colours.NONE),
        ({}, Colours.NONE),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, Colours.NONE),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, Colours.MANY),
    ],
)
def test_the_environment_says_how_many_colours(
    environment: dict[str, str], colours: Colours
) -> None:
    """NO_COLOR counts if it is not empty; an unknown terminal gets 16 colours."""
    assert colours_of(environment) is colours
