"""The colours of tenants, and how many colours the terminal has."""

from collections.abc import Mapping
from enum import IntEnum

NEUTRAL = "7"
"""The style of VMs of users who are no tenants of the demo: foreground and background swapped."""

_BLACK = "38;5;16"
_MANY = (
    (75, 69),  # blue
    (114, 78),  # green
    (176, 170),  # purple
    (221, 214),  # yellow
    (80, 73),  # turquoise
    (210, 203),  # red
    (252, 247),  # grey
    (180, 137),  # brown
)
"""The two backgrounds of each tenant: neighbouring VMs of a tenant get different ones. All are so
light that black text on them is readable."""
_FEW = ("44;97", "42;30", "45;97", "43;30", "46;30", "41;97", "47;30", "100;97")


class Colours(IntEnum):
    """The number of colours of a terminal."""

    NONE = 0
    FEW = 16
    MANY = 256


def tenant_style(tenant: int, colours: Colours, shade: int = 0) -> str:
    """Return the style of a tenant's VMs; `shade` distinguishes neighbouring VMs if it can."""
    if tenant < 0:
        return NEUTRAL
    if colours is Colours.MANY:
        return f"{_BLACK};48;5;{_MANY[tenant % len(_MANY)][shade % 2]}"
    return _FEW[tenant % len(_FEW)]


def colours_of(environment: Mapping[str, str]) -> Colours:
    """Return the number of colours of the terminal that the environment describes.

    `NO_COLOR` with any text forbids colours (https://no-color.org).
    """
    if environment.get("NO_COLOR"):
        return Colours.NONE
    terminal = environment.get("TERM", "")
    if environment.get("COLORTERM") in {"truecolor", "24bit"} or terminal.endswith(_MANY_COLOURS):
        return Colours.MANY
    unable = not is_able_to_draw(environment) or terminal.startswith(_MONOCHROME)
    return Colours.NONE if unable else Colours.FEW


_MANY_COLOURS = ("256color", "-direct", "kitty", "alacritty", "foot")
"""The last letters of the names of terminals with 256 colours or more."""
_MONOCHROME = ("vt1", "vt2", "vt3", "vt4", "vt52", "xterm-mono", "ansi-m")
"""The first letters of the names of terminals without colours."""


def is_able_to_draw(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal can move its cursor."""
    return environment.get("TERM", "") not in {"", "dumb", "unknown"}
