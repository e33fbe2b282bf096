"""Any bytes in forms, queries and headers get an answer, and never the status 500."""

import http.client
import re
from collections.abc import Iterator
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.api.xmlrpc.site import ANN
from tests.lengths import SOAK, shorten
from tests.web.browser import Browser
from tests.web.routes import ROUTES
from tests.web.site import PageSite
from tests.web.test_rights import addresses

_FORM = "application/x-www-form-urlencoded"
_NAMES = [
    "form",
    "user",
    "password",
    "cpu",
    "memory",
    "deadline",
    "budget",
    "replenishment",
    "performance",
    "template",
    "mode",
    "plan",
    "skip",
    "page",
]
_NUMBERS = ["-1", "1e999", "nan", "inf", "999999999999d", "9" * 400, "0x1f", "\u0663", "1_0", "²"]
_ODD = [b"\xc3\xa9", b"\xff\xfe", b"\xed\xa0\x80", b"\x00", b"\r\n", b"%", "\U0001f600".encode()]
_IDS = ["0", "1", "7", "2147483647", "2147483648", "9999999999", "00000", "\u0663"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    """Yield a site of its own, because these requests stop platforms and drain hosts."""
    made = PageSite(tmp_path_factory.mktemp("odd"))
    yield made
    made.end()


names = st.sampled_from(_NAMES).map(str.encode) | st.binary(max_size=8)
values = (
    st.sampled_from(_ODD)
    | st.sampled_from(_NUMBERS).map(str.encode)
    | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.binary(max_size=30)
)
bodies = st.lists(st.tuples(names, values), max_size=6).map(
    lambda pairs: "&".join(
        f"{quote_from_bytes(name)}={quote_from_bytes(value)}" for name, value in pairs
    ).encode()
) | st.binary(max_size=60)
routes = st.sampled_from([(route.method, route.path) for route in ROUTES] + [("POST", "/sign-in")])


def ask(browser: Browser, method: str, path: bytes, body: bytes, kind: str = _FORM) -> int:
    """Return the status of the answer to bytes that no browser would send."""
    connection = http.client.HTTPConnection(browser.where, timeout=60)
    try:
        connection.putrequest(method, "/", skip_host=True, skip_accept_encoding=True)
        connection._buffer[0] = b"%s %s HTTP/1.1" % (method.encode(), path)  # type: ignore[attr-defined]
        connection.putheader("Host", browser.where)
        connection.putheader("Cookie", browser.cookie)
        if method == "POST":
            connection.putheader("Content-Type", kind)
            connection.putheader("Origin", f"http://{browser.where}")
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body if method == "POST" else None)
        return connection.getresponse().status
    finally:
        connection.close()


def target(path: str, number: str, query: bytes) -> bytes:
    """Return an address with this id and query, as bytes on the wire."""
    where = quote_from_bytes(path.replace("{}", number).encode())
    safe = re.sub(rb"[\x00-\x20\x7f]", b"+", query)
    return where.encode() + (b"?" + safe if safe else b"")


@pytest.mark.parametrize("form", ["%C3%A9", "%FF", "%ED%A0%80", "%00", "\x80"])
def test_a_form_secret_of_odd_bytes_is_rejected(site: PageSite, form: str) -> None:
    """The status is 403, and the log has no failure."""
    browser = site.browser(ANN)
    body = b"form=" + form.encode("latin-1")
    assert ask(browser, "POST", b"/vms/0/bid", body) == 403
    assert ask(browser, "POST", b"/sign-out", body) == 403


@pytest.fixture
def admin(site: PageSite) -> Browser:
    """Return an administrator's browser for all examples."""
    return site.browser(site.admin)


@settings(max_examples=shorten(400, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(route=routes, number=st.sampled_from(_IDS), query=bodies, body=bodies, right=st.booleans())
@example(route=("GET", "/platforms/{}"), number="9999999999", query=b"", body=b"", right=True)
@example(route=("POST", "/sign-in"), number="", query=b"", body=b"user=%ED%A0%80", right=False)
def test_no_form_and_no_query_breaks_a_page(
    admin: Browser, route: tuple[str, str], number: str, query: bytes, body: bytes, right: bool
) -> None:
    """An administrator's request with or without the secret is rejected or answered."""
    method, path = route
    if path == "/sign-out":
        right = False  # the other examples need the session
    secret = b"form=" + admin.secret().encode() + b"&" if right else b""
    status = ask(admin, method, target(path, number, query), secret + body)
    assert status < 500, (method, path)


@pytest.mark.parametrize("number", _NUMBERS if SOAK else ["0x1f", "nan", "²"])
def test_an_odd_number_in_every_field_breaks_no_page(
    site: PageSite, admin: Browser, number: str
) -> None:
    """An administrator sends it with the secret to each page and each order of existing objects."""
    fields = "&".join(f"{name}={quote_from_bytes(number.encode())}" for name in _NAMES[1:])
    body = f"form={admin.secret()}&{fields}".encode()
    for method, path in addresses(site):
        if path != "/sign-out":
            status = ask(admin, method, target(path, "", fields.encode()), body)
            assert status < 500, (method, path)


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=x", "application/json", "", "\xe9"]
)
def test_only_form_content_types_are_accepted(site: PageSite, kind: str) -> None:
    """Other sites can send other content types without a preflight request."""
    browser = site.browser(ANN)
    body = f"form={browser.secret()}&cpu=9".encode()
    assert ask(browser, "POST", b"/vms/0/bid", body, kind) == 415


def test_the_log_has_no_failure(site: PageSite) -> None:
    """None of the requests before caused an error in the daemon."""
    log = site.log.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]
