"""The files that a page loads: all of them from here, read once."""

from functools import cache
from importlib import resources

from merkatd.web.answers import Answer

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


def asset(name: str) -> Answer | None:
    """Return the file of this name; None where there is none."""
    return _loaded(name) if name in NAMES else None


@cache
def _loaded(name: str) -> Answer:
    """Return a file that exists; other names must not reach this cache."""
    body = resources.files(__package__).joinpath("files", name).read_bytes()
    return Answer(body, kind=_KINDS[name.rpartition(".")[2]], cacheable=True)
