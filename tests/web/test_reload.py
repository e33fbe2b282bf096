"""Pages and calls use the reloaded configuration, not that of the start."""

import re

from tests.api.xmlrpc.site import ANN, until
from tests.web.site import PageSite

_SPAN = re.compile(r'data-head="Lasts"[^>]*>(?:(\d+) h )?(?:(\d+) min)?')


def lasts_min(site: PageSite) -> int:
    """Return the minutes for which Ann's credits last, from her account's page."""
    text = site.browser(ANN).get("/tenants").text
    match = _SPAN.search(text)
    assert match is not None, text
    return 60 * int(match[1] or 0) + int(match[2] or 0)


def use_interval(site: PageSite, text: str, interval_s: int) -> None:
    """Reload the configuration with this interval."""
    changed = text.replace('interval = "20s"', f'interval = "{interval_s}s"')
    (site.folder / "merkatd.toml").write_text(changed)
    site.program.reload()
    until(lambda: site.order("status")["interval_s"] == interval_s, "the new interval")


def test_after_a_reload_the_page_uses_the_new_interval(site: PageSite) -> None:
    """With periods four times as long, credits last about four times as long."""
    text = (site.folder / "merkatd.toml").read_text()
    assert 'interval = "20s"' in text
    site.pause()
    try:
        before = lasts_min(site)
        use_interval(site, text, 80)
        assert 3.8 * before <= lasts_min(site) <= 4.2 * before + 4
    finally:
        use_interval(site, text, 20)
        site.as_before()
