"""What others build on stays as it was recorded, whatever is moved or renamed behind it.

Where a change is meant, `python -m tests.public` records it; CHANGELOG.md says what its users do.
"""

from difflib import unified_diff
from pathlib import Path

import pytest

from tests.public.surface import TOPICS

_FOLDER = Path(__file__).with_name("recorded")


def recorded(name: str) -> Path:
    """Where the topic is recorded."""
    return _FOLDER / f"{name}.txt"


@pytest.mark.parametrize("name", TOPICS)
def test_it_is_as_it_was_recorded(name: str) -> None:
    """Commands, keys, methods, messages, tables, figures, files and modules."""
    before, now = recorded(name).read_text().splitlines(), list(TOPICS[name]())
    assert now, "nothing was found"
    assert before == now, "\n".join(unified_diff(before, now, "recorded", "now", lineterm="", n=0))


def test_every_record_has_its_topic() -> None:
    """None is left of one that was renamed."""
    assert {path.stem for path in _FOLDER.iterdir()} == set(TOPICS)
