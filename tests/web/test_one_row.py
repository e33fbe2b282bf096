"""A single row, even of an earlier version, breaks no page, list or period."""

import sqlite3

import pytest

from merkatd.cli import main
from merkatd.client import Platforms
from tests.api.xmlrpc.site import ANN, until
from tests.web.site import PageSite
from tests.web.test_rights import addresses

ROWS = {
    "a deadline of millions of years and a report of the end of time": (
        "deadline_s = 8.64e16, template = replace(template, '\"2h\"', '\"999999999999d\"'),"
        ' report = \'{"projected_end_s": 1e300, "performance": 1e300, "reference": -1e300,'
        ' "done": 1e300, "on_track": null, "text": "\\u0007", "at_s": 1.0}\''
    ),
    "a template that nobody can read": "template = 'name = '",
}


@pytest.mark.parametrize("change", ROWS.values(), ids=ROWS.keys())
def test_everything_works_beside_a_broken_row(
    site: PageSite, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pages, calls and commands work, and periods continue."""
    before = _kept(site)
    try:
        _write(site, f"UPDATE platforms SET {change} WHERE id = ?", site.platform)  # noqa: S608
        period = site.period()
        assert period is not None
        until(lambda: (site.period() or 0) >= period + 2, "two more periods")
        assert site.order("status")["failures"] == 0
        for browser in (site.browser(ANN), site.browser(site.admin)):
            for method, path in addresses(site):
                if method == "GET" and path not in {"/live", "/signout"}:
                    assert browser.get(path).status < 500, path
        with site.merkat(ANN) as merkat:
            there = Platforms(merkat)
            assert site.platform in {platform.id for platform in there.list()}
            assert there.show(site.platform).id == site.platform
        where = ["--config", str(site.state.parent / "merkatd.toml")]
        for words in (["list"], ["show", str(site.platform)]):
            assert main(["platform", *words, *where]) == 0
        assert capsys.readouterr().out
    finally:
        _write(
            site,
            "UPDATE platforms SET deadline_s = ?, template = ?, report = ? WHERE id = ?",
            *before,
        )


def _kept(site: PageSite) -> tuple[object, ...]:
    with sqlite3.connect(site.state / "merkat.db", timeout=30) as connection:
        rows = connection.execute(
            "SELECT deadline_s, template, report, id FROM platforms WHERE id = ?", [site.platform]
        )
        return tuple(rows.fetchone())


def _write(site: PageSite, query: str, *values: object) -> None:
    with sqlite3.connect(site.state / "merkat.db", timeout=30) as connection:
        connection.execute(query, values)
    connection.close()
