"""Sign-in, expiry of sessions, and protection against other sites."""

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
    """Return every route with an id."""
    return [(route.method, route.path.replace("{}", "0")) for route in ROUTES]


class TestSigningIn:
    def test_opennebulas_credentials_are_accepted(self, site: PageSite) -> None:
        """The cookie is unavailable to scripts and to other sites."""
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
    def test_other_credentials_are_rejected(self, site: PageSite, login: str) -> None:
        """The form shows the error, and no cookie is set."""
        answer = site.browser().sign_in(login)
        assert answer.status == 401
        assert "Wrong user name or password." in answer.text
        assert answer.headers["Set-Cookie"] is None

    def test_nothing_is_shown_without_a_session(self, site: PageSite) -> None:
        """Every address redirects to the form, and sent forms are rejected."""
        browser = site.browser()
        for method, path in [*paths(), ("GET", "/live"), ("GET", "/nowhere")]:
            answer = browser.ask(method, path, {} if method == "POST" else None)
            signs_in = method == "GET" and path != "/live"
            assert answer.status == (303 if signs_in else 401), path
            assert answer.text in {"", "Sign in first."}

    def test_signing_out_ends_the_session(self, site: PageSite) -> None:
        """The old cookie is invalid afterwards."""
        browser = site.browser(ANN)
        kept = browser.cookie
        assert browser.post("/sign-out").place == "/sign-in"
        browser.cookie = kept
        assert browser.get("/").status == 303

    def test_an_invented_cookie_is_invalid(self, site: PageSite) -> None:
        """This holds for any length and any characters."""
        browser = site.browser()
        for cookie in ("merkat=", "merkat=x", f"merkat={'x' * 3000}", "merkat=é", '; ="', "="):
            browser.cookie = cookie.encode().decode("latin-1")
            assert browser.get("/").status == 303


class TestExpiry:
    def test_a_session_expires(self) -> None:
        """It ends after its longest time, or earlier without clicks, whatever the page fetches."""
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

    def test_no_login_is_stored_in_plain_text(self) -> None:
        """The stored data also reveal no token."""
        sessions = BrowserSessions(lambda: 0.0, longest_s=1.0, idle_s=1.0, most_per_user=9)
        token = sessions.begin("ann:hush", 1)
        kept = repr(sessions._kept)
        assert "hush" not in kept
        assert token not in kept
        session = sessions.of(token, by_hand=True)
        assert session is not None
        assert session.login == "ann:hush"
        assert "hush" not in repr(session)


class TestForgery:
    def test_a_form_needs_the_sessions_secret(self, site: PageSite) -> None:
        """A missing secret and another session's are rejected, for every form."""
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
    def test_another_site_cannot_send_forms(self, site: PageSite, headers: dict[str, str]) -> None:
        """This holds also with the correct secret, and for signing in."""
        browser = site.browser(ANN)
        form = {"form": browser.secret(), "cpu": "9"}
        assert browser.ask("POST", "/vms/0/bid", form, headers).status == 403
        user, _, password = BOB.partition(":")
        login = {"user": user, "password": password}
        assert site.browser().ask("POST", "/sign-in", login, headers).status == 403

    def test_get_requests_change_nothing(self, site: PageSite) -> None:
        """Orders have no address that a link could use."""
        browser = site.browser(site.admin)
        for path in ("/daemon/pause", "/hosts/0/drain", "/vms/0/bid", "/sign-out"):
            assert browser.get(path).status == 404
        assert site.order("status")["paused"] is False


class TestAnswers:
    def test_every_answer_has_all_security_headers(self, site: PageSite) -> None:
        """Files, rejections and errors have them too."""
        unknown = site.browser()
        some = [("GET", "/"), ("POST", "/daemon/pause"), ("GET", "/live"), ("POST", "/sign-in")]
        for method, path in [*some, ("GET", "/nowhere"), ("GET", "/files/page.css")]:
            answer = unknown.ask(method, path, {} if method == "POST" else None)
            for name, value in HEADERS.items():
                assert answer.headers.get_all(name) == [value], path

    def test_pages_are_never_cached(self, site: PageSite) -> None:
        """Only the fixed files are cached, privately."""
        admin = site.browser(site.admin)
        pages = [path for method, path in paths() if method == "GET"]
        for path in [*pages, f"/platforms/{site.platform}", f"/vms/{site.vm}", "/nowhere"]:
            assert admin.get(path).headers.get_all("Cache-Control") == ["no-store"], path
        assert site.browser().get("/sign-in").headers.get_all("Cache-Control") == ["no-store"]
        assert admin.get("/files/no.css").headers.get_all("Cache-Control") == ["no-store"]
        kept = admin.get("/files/page.css").headers.get_all("Cache-Control")
        assert kept == ["private, max-age=3600"]

    def test_without_a_certificate_there_is_no_hsts_header(self, site: PageSite) -> None:
        """A browser with that header could not open the plain page for a year."""
        admin = site.browser(site.admin)
        for path in ("/", "/sign-in", "/files/page.css", "/nowhere"):
            assert admin.get(path).headers["Strict-Transport-Security"] is None, path

    def test_pages_obey_their_security_policy(self, site: PageSite) -> None:
        """They have no inline scripts, styles or handlers, and nothing from other sites."""
        browser = site.browser(site.admin)
        pages = [path for method, path in paths() if method == "GET"]
        for path in [*pages, f"/platforms/{site.platform}", f"/vms/{site.vm}"]:
            answer = browser.get(path)
            assert set(HEADERS.items()) <= set(answer.headers.items()), path
            text = answer.text
            assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", text), path
            assert not re.search(r"(src|href|action)=\"(?!/|#)", text), path

    def test_a_form_that_is_too_large_is_rejected(self, site: PageSite) -> None:
        """It is rejected before it is processed."""
        browser = site.browser(ANN)
        assert browser.ask("POST", "/platforms/quote", {"form": "x" * 400_000}).status == 413

    @pytest.mark.parametrize("path", ["//", "/%00", "/vms/99999999999", "/vms/-1", "/files/../x"])
    def test_an_unknown_address_is_not_found(self, site: PageSite, path: str) -> None:
        """The answer reveals nothing else."""
        assert site.browser(ANN).get(path).status == 404


def test_only_existing_files_are_cached() -> None:
    """A thousand requests for unknown names use no memory."""
    for number in range(1_000):
        assert asset(f"x{number}.css") is None
        assert asset("../" * number + "page.css") is None or number == 0
    kept = [value for value in vars(responses).values() if hasattr(value, "cache_info")]
    assert kept
    assert all(cached.cache_info().currsize <= len(responses.NAMES) for cached in kept)
