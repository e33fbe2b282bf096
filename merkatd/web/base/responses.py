"""What a browser asks and is answered, as values; the files a page loads."""

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
"""On every answer, whatever it is."""
LOOK_AGAIN = (("Retry-After", "5"), ("Refresh", "5"))
"""For what can't be shown now and soon can: before the first period, or while a server is away."""
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class BrowserRequest:
    """One request."""

    method: str
    path: str
    query: Form
    form: Form
    """Not read before the visitor is let in: to read a large one takes time."""
    size: int
    """Bytes of the form."""
    cookie: str
    by_hand: bool
    """Whether a person asked, and not the page by itself."""
    own: bool
    """Whether it comes from no other site's page, as far as the browser says."""
    address: str

    def field(self, name: str) -> str:
        """What a form says once."""
        return self.form.field(name)


@dataclass(frozen=True, slots=True)
class PageResponse:
    """One response."""

    body: bytes
    status: int = 200
    kind: str = HTML
    headers: Sequence[tuple[str, str]] = ()
    cacheable: bool = False


@dataclass(frozen=True, slots=True)
class LiveResponse:
    """A response that goes on: the events of the market, for this session."""

    begin: Callable[[Listener], None]
    """What is to be done with who listens."""


def page(text: str, status: int = 200) -> PageResponse:
    """HTML."""
    return PageResponse(text.encode(), status)


def redirect(path: str) -> PageResponse:
    """Elsewhere, by GET."""
    return PageResponse(b"", 303, headers=(("Location", path),))


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
    "uPlot.iife.min.js",
    "uPlot.min.css",
    "uPlot.LICENSE.txt",
    "merkat.svg",
)


def asset(name: str) -> PageResponse | None:
    """Return the file of this name; None where there is none."""
    return _loaded(name) if name in NAMES else None


@cache
def _loaded(name: str) -> PageResponse:
    """Return a file that exists; other names must not reach this cache."""
    body = resources.files("merkatd.web").joinpath("files", name).read_bytes()
    return PageResponse(body, kind=_KINDS[name.rpartition(".")[2]], cacheable=True)
