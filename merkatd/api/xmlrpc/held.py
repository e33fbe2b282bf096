"""Answers that are held back: the connections of a caller over its limits carry few calls."""

from typing import NamedTuple

HELD_S = 0.5
"""For so long. Meanwhile nothing more is read from that connection than a packet or two."""


class Held(NamedTuple):
    """An answer to a call that came too early."""

    body: bytes
