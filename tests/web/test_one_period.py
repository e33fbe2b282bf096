"""All parts of a page belong to one period, even if another one ends meanwhile."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from merkatd.web.base.form_reader import Form
from merkatd.web.base.period_memory import Past
from merkatd.web.base.responses import BrowserRequest
from merkatd.web.base.routes import PageRequest
from tests.api.xmlrpc.site import ANN
from tests.web.presents import view_of
from tests.web.site import PageSite
from tests.web.test_past import moment

_NOTHING: Any = None


def test_a_page_ignores_later_periods() -> None:
    """Periods that end while it is created are not in its charts."""
    now = view_of(1, [0], np.array([[100.0, 1024.0]]))
    prepared: Any = SimpleNamespace(now=now)
    past = Past()
    asked = BrowserRequest(
        "GET", "/", Form(b""), Form(b""), 0, "", by_hand=True, own=True, address=""
    )
    here = PageRequest(
        _NOTHING,
        _NOTHING,
        past,
        _NOTHING,
        asked,
        form="",
        id=-1,
        prepared=prepared,
        reading=_NOTHING,
    )
    for period in (here.period - 1, here.period, here.period + 1):
        past.add(moment(period))
    assert [moment.period for moment in here.moments] == [here.period - 1, here.period]


def test_head_charts_and_tables_show_the_same_period(site: PageSite) -> None:
    """The database may have prices of the present period, and the history comes later."""
    ann = site.browser(ANN)
    for path in ["/", "/prices", "/vms/0", f"/tenants/{site.users['ann']}", "/hosts/0"]:
        page = ann.get(path)
        shown = re.search(r'<dt>Period</dt><dd><a href="/periods/([0-9]+)">', page.text)
        assert shown is not None, path
        assert page.charts["period"][-1] == int(shown[1]), path
        newest = re.search(r'<tbody[^>]*><tr[^>]*><th[^>]*><a href="/periods/([0-9]+)"', page.text)
        if path != "/":
            assert newest is not None, path
            assert newest[1] == shown[1], path
