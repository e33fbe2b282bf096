"""Each form says what it did; orders with lasting effects ask first; sign-in returns."""

import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.web.base.routes import LONGEST_ADDRESS, find, local_address
from merkatd.web.browser_sessions import BrowserSessions
from tests.api.xmlrpc.site import ANN, BOB
from tests.web.browser import Browser
from tests.web.site import PageSite


def said(browser: Browser, path: str) -> str:
    """Return the sentence about the last order at the top of a page, "" without one."""
    found = re.search(
        r'<p class="banner good" role="status" id="done">([^<]*)</p>', browser.get(path).text
    )
    return found[1] if found else ""


class TestDone:
    def test_each_order_says_once_what_it_did(self, site: PageSite) -> None:
        """The page after the form shows it, and the page loaded again does not."""
        admin = site.browser(site.admin)
        try:
            for path, form, words in (
                ("/daemon/pause", {}, "The daemon is paused"),
                ("/daemon/resume", {}, "The daemon is resumed"),
                ("/daemon/mode", {"mode": "on"}, "The mode is on"),
                ("/hosts/0/drain", {}, "Host host000 drains"),
                ("/hosts/0/undrain", {}, "Host host000 is in use again"),
                ("/vms/1/bid", {"cpu": "6"}, "VM 1 bids 6 credits a period for CPU"),
            ):
                place = admin.post(path, **form).place
                assert said(admin, place).startswith(words), path
                assert said(admin, place) == "", path
        finally:
            site.as_before()

    def test_orders_of_platforms_say_what_they_did(self, site: PageSite) -> None:
        """A tenant reads it for its own platform."""
        ann = site.browser(ANN)
        at = f"/platforms/{site.platform}"
        for end, form, words in (
            ("change", {"budget": "100"}, "Changed: budget of "),
            ("suspend", {}, "is suspended."),
            ("resume", {}, "is resumed."),
        ):
            assert ann.post(f"{at}/{end}", **form).place == at
            assert words in said(ann, at)

    def test_an_update_by_the_script_does_not_use_it_up(self, site: PageSite) -> None:
        """A page that another tab fetches shows nothing; other pages do not either."""
        admin = site.browser(site.admin)
        admin.post("/daemon/mode", mode="on")
        fetched = admin.ask("GET", "/daemon", headers={"X-Merkat-Live": "1"})
        assert 'id="done"' not in fetched.text
        assert said(admin, "/hosts") == ""
        assert said(admin, "/daemon") != ""

    def test_it_belongs_to_one_session(self) -> None:
        """Another session of the same user reads nothing."""
        sessions = BrowserSessions(lambda: 0.0, longest_s=9.0, idle_s=9.0, most_per_user=9)
        first, second = (
            sessions.of(sessions.begin("ann:secret", 1), by_hand=True) for _ in range(2)
        )
        assert first is not None
        assert second is not None
        sessions.say(first, "/vms/1", "done")
        assert sessions.said(second, "/vms/1") == ""
        assert [sessions.said(first, "/vms/1") for _ in range(2)] == ["done", ""]


class TestAsking:
    @pytest.mark.parametrize(
        ("path", "action"),
        [
            ("/hosts/0", "/hosts/0/drain"),
            ("/daemon", "/daemon/pause"),
            ("/platforms/{platform}", "/platforms/{platform}/stop"),
        ],
    )
    def test_an_order_with_lasting_effects_asks_first(
        self, site: PageSite, path: str, action: str
    ) -> None:
        """Its button is folded, below a sentence about its effect."""
        ids = {"platform": site.platform}
        text = site.browser(site.admin).get(path.format(**ids)).text
        form = f'action="{action.format(**ids)}"'
        folded = [
            box
            for box in re.findall(r'<details class="careful">.*?</details>', text)
            if form in box
        ]
        assert len(folded) == text.count(form) == 1
        assert re.search(r"<summary[^>]*>[^<]+ …</summary><p>[^<]{20,}</p><form", folded[0])


class TestReturn:
    @pytest.mark.parametrize("path", ["/vms/0", "/vms?q=a+b&sort=-pays&page=2", "/prices"])
    def test_sign_in_returns_to_the_page_that_was_asked_for(
        self, site: PageSite, path: str
    ) -> None:
        """Also after a wrong password."""
        browser = site.browser()
        place = browser.get(path).place
        assert parse_qs(urlsplit(place).query) == {"to": [path]}
        user, _, password = ANN.partition(":")
        hidden = re.search(r'name="to" value="([^"]*)"', browser.get(place).text)
        assert hidden is not None
        to = hidden[1].replace("&amp;", "&")
        wrong = browser.ask("POST", "/sign-in", {"user": user, "password": "x", "to": to})
        assert wrong.status == 401
        assert hidden[0] in wrong.text
        answer = browser.ask("POST", "/sign-in", {"user": user, "password": password, "to": to})
        assert (answer.status, answer.place) == (303, path)

    @pytest.mark.parametrize(
        "to",
        ["//evil.example", "https://evil.example/", "/\\evil.example", "/vms/0?\r\nX: y", "/x"],
    )
    def test_it_leads_to_no_other_site(self, site: PageSite, to: str) -> None:
        """Any other text leads to the overview."""
        browser = site.browser()
        assert "evil" not in browser.get(f"/sign-in?to={quote(to, safe='')}").text
        user, _, password = BOB.partition(":")
        answer = browser.ask("POST", "/sign-in", {"user": user, "password": password, "to": to})
        assert (answer.status, answer.place) == (303, "/")

    @given(st.text(max_size=300) | st.text(alphabet="/vms0?q=&.:\\\r\n%", max_size=30))
    def test_only_pages_of_this_site_are_returned_to(self, text: str) -> None:
        """The result is one line, and always a page that exists here."""
        to = local_address(text)
        assert to in {text, "/"}
        assert find("GET", to.partition("?")[0]) is not None
        assert to.isascii()
        assert to.isprintable()
        assert len(to) <= LONGEST_ADDRESS


def test_empty_lists_say_what_to_do_next(site: PageSite) -> None:
    """A tenant without VMs, platforms and limit orders finds a way to each."""
    proxy = site.opennebula
    name = "newcomer"
    proxy(site.admin, "one.user.allocate", name, "pass-word", "core")
    browser = site.browser(f"{name}:pass-word")
    assert 'href="/platforms/new"' in browser.get("/vms").text.partition("<main")[2]
    for path, words in (
        ("/vms", "onevm create"),
        ("/hosts", "None of your VMs is on a host."),
        ("/platforms", "Submit one"),
        ("/limit-orders", "State one below"),
    ):
        assert words in browser.get(path).text, path


def test_steps_are_grouped_by_their_period(site: PageSite) -> None:
    """Narrow pages show the title of each group: the period, its time, the number of decisions."""
    text = site.browser(site.admin).get("/decisions").text
    bodies = re.findall(r"<tbody.*?</tbody>", text)
    assert bodies
    for body in bodies:
        title = re.search(r'<tr role="row" class="group">.*?(\d+) decisions?</th>', body)
        assert title is not None
        assert int(title[1]) == body.count("<tr") - 1
