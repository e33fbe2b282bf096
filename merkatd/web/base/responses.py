"""Requests and responses of browsers as values, and the static files of pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from merkatd.web.base.form_reader import Form
from merkatd.web.base.live_updates import Listener

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # With "no-referrer" browsers send "Origin: null" with our own forms.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
)
"""The headers of every response."""
LOOK_AGAIN = (("Retry-After", "5"), ("Refresh", "5"))
"""The headers of a page that is unavailable for a short time, which make the browser reload it."""
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class BrowserRequest:
    """A request from a browser."""

    method: str
    path: str
    query: Form
    form: Form
    """The form, parsed only after the visitor is admitted: a large one takes time."""
    size: int
    """The size of the form in bytes."""
    cookie: str
    by_hand: bool
    """Whether a person made the request, not the page's script."""
    own: bool
    """Whether the browser confirms that the request does not come from another site."""
    address: str

    def field(self, name: str) -> str:
        """Return the first value of a form's field, "" if it is missing."""
        return self.form.field(name)


@dataclass(frozen=True, slots=True)
class PageResponse:
    """A complete response."""

    body: bytes
    status: int = 200
    kind: str = HTML
    headers: Sequence[tuple[str, str]] = ()
    cacheable: bool = False
    said: str = ""
    """The sentence that the page of a redirect shows once: what an order did."""


@dataclass(frozen=True, slots=True)
class LiveResponse:
    """A response without end: the events of the market for a session."""

    begin: Callable[[Listener], None]
    """Registers the listener on the connection."""


def page(text: str, status: int = 200) -> PageResponse:
    """Return a response with HTML."""
    return PageResponse(text.encode(), status)


def data(text: str) -> PageResponse:
    """Return a response with JSON for a script of the page."""
    return PageResponse(text.encode(), kind="application/json")


def redirect(path: str, said: str = "") -> PageResponse:
    """Return a redirect to this path, whose page shows once what an order did."""
    return PageResponse(b"", 303, headers=(("Location", path),), said=said)


_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
NAMES = (
    "page.css",
    "live.js",
    "hosts.js",
    "charts.js",
    "forms.js",
    "uPlot.iife.min.js",
    "uPlot.min.css",
    "uPlot.LICENSE.txt",
    "merkat.svg",
)


def asset(name: str) -> PageResponse | None:
    """Return the static file of this name, None if it does not exist."""
    return _loaded(name) if name in NAMES else None


@cache
def _loaded(name: str) -> PageResponse:
    """Return a file that exists; other names must not reach this cache."""
    body = resources.files("merkatd.web").joinpath("files", name).read_bytes()
    return PageResponse(body, kind=_KINDS[name.rpartition(".")[2]], cacheable=True)
