"""The pages about the configuration match the code."""

from pathlib import Path

import pytest

from merkatd.config.config_reference import pages
from merkatd.config.configuration import Config
from merkatd.config.loader import load
from merkatd.config.setting_values import sections

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", list(pages()))
def test_a_page_is_up_to_date(name: str) -> None:
    """`python -m merkatd.config.config_reference` writes exactly the present text."""
    assert (ROOT / name).read_text(encoding="utf-8") == pages()[name]


def test_the_shipped_file_has_exactly_the_defaults() -> None:
    """Starting with or without it is the same."""
    assert load(ROOT / "etc" / "merkatd.toml") == Config()


def test_every_key_has_an_explanation_and_a_unique_name() -> None:
    """A key without an explanation, or two settings with one key, are errors."""
    for path, _, settings in sections(Config()):
        keys = [setting.key for setting in settings]
        assert len(set(keys)) == len(keys), path
        assert [setting.key for setting in settings if not setting.doc] == [], path
