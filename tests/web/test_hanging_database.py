"""While the database hangs, every page answers soon from memory and says so."""

import time
from collections.abc import Iterator

import pytest

from tests.api.xmlrpc.site import ANN, BOB, until
from tests.servers import MariaDb
from tests.web.browser import Answer, Browser
from tests.web.routes import ROUTES
from tests.web.site import PageSite

_SOON_S = 2.0
_OLD = "data-old"
_PAGES = [route.path for route in ROUTES if route.method == "GET"]


@pytest.fixture(scope="module")
def frozen(
    mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PageSite, Browser, Browser]]:
    """Yield a daemon whose MariaDB hangs, an administrator with visited pages, and Bob."""
    url = mariadb.make("hanging")
    made = PageSite(tmp_path_factory.mktemp("hanging"), f'[database]\nurl = "{url}"')
    try:
        admin, bob = made.browser(made.admin), made.browser(BOB)
        made.order("limit_order_set", vms=[made.vm], limit=5_000.0)
        secrets = [admin.secret(), bob.secret()]
        assert all(secrets)
        for path in addresses(made):
            assert admin.get(path).status == 200, path
        mariadb.freeze()
        yield made, admin, bob
    finally:
        mariadb.thaw()
        made.end()


def addresses(site: PageSite) -> list[str]:
    """Return every page with the id of an existing object."""
    ids = {"platforms": site.platform, "vms": site.vm, "tenants": site.users["ann"]}
    ids["limit-orders"] = 1
    paths = []
    for path in _PAGES:
        number = ids.get(path.split("/")[1], 1 if path.startswith("/periods") else 0)
        paths.append(path.replace("{}", str(number)))
    return paths


def ask_soon(browser: Browser, method: str, path: str, **form: str) -> Answer:
    """Return an answer, which must be fast."""
    begin = time.monotonic()
    answer = browser.post(path, **form) if method == "POST" else browser.get(path)
    assert time.monotonic() - begin < _SOON_S, path
    return answer


def test_visited_pages_are_shown_as_old(
    frozen: tuple[PageSite, Browser, Browser],
) -> None:
    """They have their frame, their earlier content, and its time."""
    site, admin, _ = frozen
    for path in addresses(site):
        answer = ask_soon(admin, "GET", path)
        assert answer.status == 200, path
        assert _OLD in answer.text, path
        assert "This page is old: it shows the data of" in answer.text, path
        assert 'aria-label="Pages"' in answer.text, path
    assert "anns-secret-platform" in admin.get(f"/platforms/{site.platform}").text


def test_a_new_visitor_gets_the_state_in_memory(
    frozen: tuple[PageSite, Browser, Browser],
) -> None:
    """Hosts, VMs and prices of the last period are shown, and for the rest a sentence."""
    site, _, bob = frozen
    for path in ("/", "/hosts", "/vms", "/hosts/0", "/platforms", "/prices", "/decisions"):
        answer = ask_soon(bob, "GET", path)
        assert answer.status == 200, path
        assert _OLD in answer.text, path
    assert '<a href="/vms/1">b</a>' in bob.get("/vms").text
    for path in ("/vms/1", f"/tenants/{site.users['bob']}"):
        answer = ask_soon(bob, "GET", path)
        assert answer.status == 503, path
        assert 'aria-label="Pages"' in answer.text, path
        assert "This page can&#x27;t be shown now" in answer.text, path


def test_sign_in_and_orders_are_answered(frozen: tuple[PageSite, Browser, Browser]) -> None:
    """An order is rejected instead of hanging, and many at once change nothing."""
    site, admin, bob = frozen
    ann = site.browser()
    begin = time.monotonic()
    assert ann.sign_in(ANN).status == 303
    assert time.monotonic() - begin < _SOON_S
    for _ in range(20):
        answer = ask_soon(bob, "POST", "/vms/1/bid", cpu="3")
        assert answer.status == 503
        assert "The database does not answer." in answer.text
    assert ask_soon(admin, "POST", "/daemon/pause").status == 503


def test_pages_recover_after_the_hang(
    frozen: tuple[PageSite, Browser, Browser], mariadb: MariaDb
) -> None:
    """Pages are current again, and orders are executed."""
    _, admin, bob = frozen
    mariadb.thaw()
    until(lambda: _OLD not in admin.get("/").text, "a page that is not old")
    until(lambda: bob.post("/vms/1/bid", cpu="3").status == 303, "an order that is done")
    assert bob.get("/vms/1").status == 200
