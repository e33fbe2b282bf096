"""The page of strategies shows administrators what `merkatd strategy` shows."""

import re
from html import escape

from tests.api.xmlrpc.site import ANN
from tests.web.site import PageSite


def test_every_strategy_is_shown_with_its_settings(site: PageSite) -> None:
    """The strategy that a market runs comes first; values are those of the command."""
    admin = site.browser(site.admin)
    page = admin.get("/strategies").text
    headings = re.findall(r"<h2[^>]*>([a-z-]+): ", page)
    rows = site.order("strategies")
    assert sorted(headings) == sorted(row["name"] for row in rows)
    assert headings[0] == "tabu"
    for row in rows:
        assert row["summary"].split(",")[0] in page
        assert all(moves["words"] in page for moves in row["moves"])
        for setting in row["settings"]:
            assert setting["key"] in page
            assert setting["default"] in page
            assert setting["meaning"]
            assert escape(setting["meaning"]) in page
            assert f">{setting['unit']}<" in page
    assert 'href="/strategies"' in admin.get("/decisions").text


def test_tenants_do_not_see_it(site: PageSite) -> None:
    """Neither the page nor the link to it."""
    ann = site.browser(ANN)
    assert ann.get("/strategies").status == 404
    assert "/strategies" not in ann.get("/decisions").text
