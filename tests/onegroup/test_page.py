"""docs/onegroup.md: its commands, keys and configuration work as described."""

import re
from pathlib import Path

from merkatd.config.loader import parse
from onegroup.cli import VERBS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "onegroup.md").read_text(encoding="utf-8")
PAPERS_KEYS = (
    "LOGFILE",
    "ON_RPC_PORT",
    "ON_RPC_HOST",
    "ON_XMLRPC_URI",
    "MYSQL_SERVER",
    "MYSQL_USER",
    "MYSQL_PASSWD",
    "WAITTIME",
    "DEPLOYTIME",
)


def test_it_describes_every_verb() -> None:
    """No verb is missing."""
    for verb in VERBS:
        assert verb in PAGE


def test_every_parameter_of_the_paper_has_its_counterpart() -> None:
    """Each counterpart is an existing key."""
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| `([a-z_.]+)` \|", PAGE, re.MULTILINE))
    assert tuple(rows) == PAPERS_KEYS
    written = (ROOT / "etc" / "merkatd.toml").read_text(encoding="utf-8")
    for key in rows.values():
        section, name = key.split(".")
        part = written[written.index(f"[{section}]") :]
        assert re.search(rf"^#? ?{name} =", part, re.MULTILINE), key


def test_its_configuration_is_valid() -> None:
    """Of its two markets, one charges for use."""
    (table,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    config = parse(table, "docs/onegroup.md")
    assert [market.by_use for market in config.priced_markets()] == [False, True]
