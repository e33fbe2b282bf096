"""Texts that a real OpenNebula 6.10.0.1 has read, most of them found by generating texts."""

import json
from dataclasses import dataclass
from pathlib import Path

from merkatd.syntax import Attribute

_FILE = Path(__file__).with_name("recorded") / "opennebula-6.10.0.1.json"


@dataclass(frozen=True, slots=True)
class Reading:
    """A text, and the attributes that OpenNebula read in it; None where it refused the text."""

    text: str
    read: tuple[Attribute, ...] | None


def readings() -> list[Reading]:
    """Return all that was recorded."""
    return [
        Reading(row["text"], None if row["read"] is None else _attributes(row["read"]))
        for row in json.loads(_FILE.read_text())
    ]


def _attributes(read: list[list[str | dict[str, str]]]) -> tuple[Attribute, ...]:
    attributes: list[Attribute] = []
    for name, value in read:
        assert isinstance(name, str)
        attributes.append((name, value if isinstance(value, str) else tuple(value.items())))
    return tuple(attributes)
