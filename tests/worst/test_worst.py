"""No parser of tenants' text takes more than 100 ms at its size limit."""

import contextlib
import gc
import os
import time
from collections.abc import Iterator

import pytest

from merkatd.daemon.interpreter import GarbageCollections
from merkatd.protocol.wire_format import MalformedError, OtherVersionError
from tests.worst.messages import BUS
from tests.worst.parsers import PARSERS
from tests.worst.search import Parser, measured, worst

_SOAK = "MERKAT_SOAK" in os.environ
TRIES = int(os.environ.get("MERKAT_SOAK", "10"))
SEED = int(os.environ.get("MERKAT_SEED", int(time.time()) if _SOAK else 1))


@pytest.fixture(autouse=True, scope="module")
def collections() -> Iterator[None]:
    """Keep garbage collections short, as in the daemon: they skip the tests' own objects."""
    garbage = GarbageCollections()
    gc.collect()
    garbage.start()
    yield
    garbage.stop()


@pytest.mark.parametrize(
    ("parser", "case"),
    [(parser, case) for parser in PARSERS for case in parser.known],
    ids=lambda value: value.name if isinstance(value, Parser) else "|".join(value)[:40],
)
def test_known_worst_cases(parser: Parser, case: tuple[str, str, str]) -> None:
    """Each case was slow once, or is a usual way to make such a parser slow."""
    timed = measured(parser, *case)
    assert timed.seconds < parser.limit_s, str(timed)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_search_finds_no_worse_case(parser: Parser) -> None:
    """To repeat a failed long run, set MERKAT_SEED to its seed and MERKAT_SOAK to its tries."""
    timed = worst(parser, TRIES, SEED)
    assert timed.seconds < parser.limit_s, f"seed {SEED}, {timed}"


def test_known_bus_messages_have_the_present_version() -> None:
    """Messages of another version would be rejected before they are parsed."""
    ours = [text for text in BUS.known if text[0].startswith('{"v":') and "kind" in text[0]]
    assert len(ours) > 4
    for begin, again, end in ours[1:]:
        taken = begin + "".join(again.replace("{n}", str(number)) for number in range(3)) + end
        with contextlib.suppress(MalformedError):
            BUS.read(taken)
            continue
        with pytest.raises(MalformedError) as error:
            BUS.read(taken)
        assert not isinstance(error.value, OtherVersionError)
