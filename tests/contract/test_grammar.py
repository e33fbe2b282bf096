"""Template texts have the meaning that a real OpenNebula 6.10 was recorded to give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings

from merkatd.syntax import Attribute, ParseError, parse
from tests.syntax.readings import readings
from tests.syntax.texts import TEXTS

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

REPLACE = 0
READINGS = readings()


def read_by(endpoint: Endpoint, vm: int, text: str) -> tuple[Attribute, ...] | None:
    """Return what the server reads in a text that becomes a VM's user template."""
    answer = endpoint.raw("one.vm.update", vm, text, REPLACE)
    if answer[0] is not True:
        assert "Parse error" in answer[1]
        return None
    inside = endpoint.xml("one.vm.info", vm).find("USER_TEMPLATE")
    assert inside is not None
    return tuple(
        (
            row.tag,
            tuple((child.tag, child.text or "") for child in row) if len(row) else row.text or "",
        )
        for row in inside
    )


def read_by_us(text: str) -> tuple[Attribute, ...] | None:
    """Return what Merkat's own parser reads in it."""
    try:
        return parse(text).attributes
    except ParseError:
        return None


def test_each_recorded_text_is_parsed_the_same_way(endpoint: Endpoint) -> None:
    """The embedded cloud and OpenNebula refuse the same texts and agree on the rest."""
    if endpoint.version >= (7, 0):
        pytest.skip("7.x takes blanks at the ends of values away")
    vm = endpoint.new()
    differ = [
        reading for reading in READINGS if read_by(endpoint, vm, reading.text) != reading.read
    ]
    assert not differ


def test_generated_texts_are_parsed_the_same_way(endpoint: Endpoint) -> None:
    """The server and the parser that protects the daemon's rights agree."""
    if endpoint.version >= (7, 0):
        pytest.skip("7.x takes blanks at the ends of values away")
    vm = endpoint.new()

    @settings(
        max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @example('A="2"x')
    @given(TEXTS.filter(lambda text: not text.startswith("<") and "]]>\n" not in text))
    def alike(text: str) -> None:
        assert read_by(endpoint, vm, text) == read_by_us(text), text

    alike()
