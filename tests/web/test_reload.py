"""Pages and calls use the reloaded configuration, not that of the start."""

import re
import signal
from pathlib import Path

from tests.api.xmlrpc.site import ANN, until
from tests.web.site import PageSite

_SPAN = re.compile(r'data-head="Lasts"[^>]*>(?:(\d+) h )?(?:(\d+) min)?')


def lasts_min(site: PageSite) -> int:
    """Return the minutes for which Ann's credits last, from her account's page."""
    text = site.browser(ANN).get("/tenants").text
    found = _SPAN.search(text)
    assert found is not None, text
    return 60 * int(found[1] or 0) + int(found[2] or 0)


def test_after_a_reload_the_page_uses_the_new_interval(tmp_path: Path) -> None:
    """With periods four times as long, credits last about four times as long."""
    site = PageSite(tmp_path)
    try:
        site.pause()
        before = lasts_min(site)
        config = site.folder / "merkatd.toml"
        text = config.read_text()
        assert 'interval = "5s"' in text
        config.write_text(text.replace('interval = "5s"', 'interval = "20s"'))
        site.program.send_signal(signal.SIGHUP)
        until(lambda: site.order("status")["interval_s"] == 20.0, "the new interval")
        assert 3.8 * before <= lasts_min(site) <= 4.2 * before + 4
    finally:
        site.end()
