"""Who gets in, for how long, and what no foreign page can do."""

import re

import pytest

from merkatd.web.base import responses
from merkatd.web.base.responses import POLICY, asset
from merkatd.web.browser_sessions import BrowserSessions
from tests.api.xmlrpc.site import ANN, BOB
from tests.web.routes import ROUTES
from tests.web.site import PageSite

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}


def paths() -> list[tuple[str, str]]:
    """Every route with some id in it."""
    return [(route.method, route.path.replace("{}", "0")) for route in ROUTES]


class TestSigningIn:
    def test_opennebulas_credentials_are_right(self, site: PageSite) -> None:
        """The cookie is of no use to scripts and to other sites."""
        answer = site.browser().sign_in(ANN)
        assert (answer.status, answer.place) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))

    @pytest.mark.parametrize(
        "login",
        [
            "ann:wrong",
            "nobody:x",
            ":",
            "ann:",
            "a\r\nb:x",
            "ü:ü",
            "\U0001f600:x",
            "ann:\x01",
            "\uffff:x",
        ],
    )
    def test_others_are_not(self, site: PageSite, login: str) -> None:
        """They are told so in the form, and get no cookie."""
        answer = site.browser().sign_in(login)
        assert answer.status == 401
        assert "Wrong user name or password." in answer.text
        assert answer.headers["Set-Cookie"] is None

    def test_without_it_nothing_is_shown(self, site: PageSite) -> None:
        """Every address sends to the form; what forms send is refused."""
        browser = site.browser()
        for method, path in [*paths(), ("GET", "/live"), ("GET", "/nowhere")]:
            answer = browser.ask(method, path, {} if method == "POST" else None)
            signs_in = method == "GET" and path != "/live"
            assert answer.status == (303 if signs_in else 401), path
            assert answer.text in {"", "Sign in first."}

    def test_leaving_ends_it(self, site: PageSite) -> None:
        """Also for who has kept the cookie."""
        browser = site.browser(ANN)
        kept = browser.cookie
        assert browser.post("/sign-out").place == "/sign-in"
        browser.cookie = kept
        assert browser.get("/").status == 303

    def test_a_made_up_cookie_is_nobodys(self, site: PageSite) -> None:
        """However long it is."""
        browser = site.browser()
        for cookie in ("merkat=", "merkat=x", f"merkat={'x' * 3000}", "merkat=é", '; ="', "="):
            browser.cookie = cookie.encode().decode("latin-1")
            assert browser.get("/").status == 303


class TestExpiry:
    def test_a_session_ends_by_time(self) -> None:
        """After its longest time; sooner where nothing is clicked, whatever a page fetches."""
        now = [0.0]
        sessions = BrowserSessions(lambda: now[0], longest_s=100.0, idle_s=10.0, most_per_user=9)
        token = sessions.begin("ann:secret", 1)
        for now[0] in range(0, 95, 9):
            assert sessions.of(token, by_hand=True) is not None
        now[0] = 100.0
        assert sessions.of(token, by_hand=True) is None
        other = sessions.begin("ann:secret", 1)
        for now[0] in range(100, 110, 3):
            assert sessions.of(other, by_hand=False) is not None
        now[0] = 110.0
        assert sessions.of(other, by_hand=False) is None

    def test_no_login_is_kept_in_the_clear(self) -> None:
        """Nor anything by which a token could be found."""
        sessions = BrowserSessions(lambda: 0.0, longest_s=1.0, idle_s=1.0, most_per_user=9)
        token = sessions.begin("ann:hush", 1)
        kept = repr(sessions._kept)
        assert "hush" not in kept
        assert token not in kept
        found = sessions.of(token, by_hand=True)
        assert found is not None
        assert found.login == "ann:hush"
        assert "hush" not in repr(found)


class TestForgery:
    def test_a_form_needs_the_sessions_word(self, site: PageSite) -> None:
        """None and another session's are refused, for every form there is."""
        browser, strange = site.browser(ANN), site.browser(BOB).secret()
        posts = [path for method, path in paths() if method == "POST"]
        for path in posts:
            for form in ({"form": ""}, {"form": strange}):
                answer = browser.ask("POST", path, form)
                assert answer.status == 403, path

    @pytest.mark.parametrize(
        "headers",
        [
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": ""},
            {"Sec-Fetch-Site": ""},
        ],
    )
    def test_another_sites_page_can_send_nothing(
        self, site: PageSite, headers: dict[str, str]
    ) -> None:
        """Not even with the right word, and it can sign nobody in."""
        browser = site.browser(ANN)
        form = {"form": browser.secret(), "cpu": "9"}
        assert browser.ask("POST", "/vms/0/bid", form, headers).status == 403
        user, _, password = BOB.partition(":")
        login = {"user": user, "password": password}
        assert site.browser().ask("POST", "/sign-in", login, headers).status == 403

    def test_nothing_is_changed_by_get(self, site: PageSite) -> None:
        """Orders have no address that a link could lead to."""
        browser = site.browser(site.admin)
        for path in ("/orders/pause", "/hosts/0/drain", "/vms/0/bid", "/sign-out"):
            assert browser.get(path).status == 404
        assert site.order("status")["paused"] is False


class TestAnswers:
    def test_every_answer_has_all_headers(self, site: PageSite) -> None:
        """Files, refusals and errors."""
        unknown = site.browser()
        some = [("GET", "/"), ("POST", "/orders/pause"), ("GET", "/live"), ("POST", "/sign-in")]
        for method, path in [*some, ("GET", "/nowhere"), ("GET", "/files/page.css")]:
            answer = unknown.ask(method, path, {} if method == "POST" else None)
            for name, value in HEADERS.items():
                assert answer.headers.get_all(name) == [value], path

    def test_no_page_is_kept_by_browsers_and_proxies(self, site: PageSite) -> None:
        """Pages, refusals and data are never stored; only the fixed files are, privately."""
        admin = site.browser(site.admin)
        pages = [path for method, path in paths() if method == "GET"]
        for path in [*pages, f"/platforms/{site.platform}", f"/vms/{site.vm}", "/nowhere"]:
            assert admin.get(path).headers.get_all("Cache-Control") == ["no-store"], path
        assert site.browser().get("/sign-in").headers.get_all("Cache-Control") == ["no-store"]
        assert admin.get("/files/no.css").headers.get_all("Cache-Control") == ["no-store"]
        kept = admin.get("/files/page.css").headers.get_all("Cache-Control")
        assert kept == ["private, max-age=3600"]

    def test_without_a_certificate_no_browser_is_bound_to_https(self, site: PageSite) -> None:
        """A browser that has seen the header once can't reach a plain page for a year."""
        admin = site.browser(site.admin)
        for path in ("/", "/sign-in", "/files/page.css", "/nowhere"):
            assert admin.get(path).headers["Strict-Transport-Security"] is None, path

    def test_no_page_needs_what_the_policy_forbids(self, site: PageSite) -> None:
        """No script or style in the page, no handler, nothing from elsewhere; all headers."""
        browser = site.browser(site.admin)
        pages = [path for method, path in paths() if method == "GET"]
        for path in [*pages, f"/platforms/{site.platform}", f"/vms/{site.vm}"]:
            answer = browser.get(path)
            assert set(HEADERS.items()) <= set(answer.headers.items()), path
            text = answer.text
            assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", text), path
            assert not re.search(r"(src|href|action)=\"(?!/|#)", text), path

    def test_a_form_that_is_too_large_is_refused(self, site: PageSite) -> None:
        """Before anything is done with it."""
        browser = site.browser(ANN)
        assert browser.ask("POST", "/platforms/quote", {"form": "x" * 400_000}).status == 413

    @pytest.mark.parametrize("path", ["//", "/%00", "/vms/99999999999", "/vms/-1", "/files/../x"])
    def test_an_address_that_is_none_leads_nowhere(self, site: PageSite, path: str) -> None:
        """And says no more than that."""
        assert site.browser(ANN).get(path).status == 404


def test_only_files_that_exist_are_kept() -> None:
    """A million asked names leave nothing in memory."""
    for number in range(1_000):
        assert asset(f"x{number}.css") is None
        assert asset("../" * number + "page.css") is None or number == 0
    kept = [one for one in vars(responses).values() if hasattr(one, "cache_info")]
    assert kept
    assert all(one.cache_info().currsize <= len(responses.NAMES) for one in kept)
