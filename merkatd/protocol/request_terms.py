"""The parameters of the monitor `requests` in a template: their checks, and their values. Pure.

The daemon reads them when a tenant submits a template, the monitor when it starts.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

REQUESTS: Final = "requests"
"""The kind of the monitor of a web application's requests."""
HAPROXY, NGINX = "haproxy", "nginx"
SOCKET: Final = "/run/haproxy/admin.sock"
"""The default path of HAProxy's socket, as in Debian's configuration."""
LOG: Final = "/var/log/nginx/access.log"
_SOURCES: Final[Mapping[str, frozenset[str]]] = {
    HAPROXY: frozenset({"socket", "url", "frontend", "backend"}),
    NGINX: frozenset({"log"}),
}
"""The parameters of each source."""
_LONGEST: Final = 1_000
_PATH: Final = re.compile(r"/[\w./+@-]*", re.ASCII)
_URL: Final = re.compile(r"https?://[!-&(-~]+", re.ASCII)
_NAME: Final = re.compile(r"[\w.:-]+", re.ASCII)
"""The names that HAProxy accepts for a proxy."""
_FORMS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "log": (_PATH, "an absolute path of letters, digits and ./+@_-"),
    "socket": (_PATH, "an absolute path of letters, digits and ./+@_-"),
    "url": (_URL, "an address like 'http://127.0.0.1:8404/stats;csv'"),
    "frontend": (_NAME, "the name of a frontend"),
    "backend": (_NAME, "the name of a backend"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTerms:
    """The source of the data of a monitor `requests`."""

    source: str
    log: str = LOG
    """The path of nginx's access log."""
    socket: str = SOCKET
    url: str = ""
    """The address of HAProxy's statistics page as CSV; empty to use the socket."""
    frontend: str = ""
    """The frontend whose requests count; empty for all."""
    backend: str = ""
    """The backend whose response time counts; empty for all."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """Read a monitor's parameters. Raise ValueError for the first error."""
        for problem in request_problems(parameters):
            raise ValueError(f"parameters.{problem}")
        names = {"source", *_FORMS} & parameters.keys()
        return cls(**{name: parameters[name] for name in names})


def request_problems(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield all errors in the parameters, each beginning with the name of a parameter."""
    source = parameters.get("source")
    if not isinstance(source, str) or source not in _SOURCES:
        got = f" (got {_short(source)})" if "source" in parameters else ""
        yield f"source must be one of {', '.join(_SOURCES)}{got}"
        return
    for name, (form, accepted) in _FORMS.items():
        if name not in parameters:
            continue
        value = parameters[name]
        if name not in _SOURCES[source]:
            own = ", ".join(sorted(_SOURCES[source]))
            yield f"{name} does not belong to source {source!r}, which has {own}"
        elif not isinstance(value, str) or len(value) > _LONGEST or not form.fullmatch(value):
            yield f"{name} must be {accepted} (got {_short(value)})"
    if source == HAPROXY and {"socket", "url"} <= parameters.keys():
        yield "url and socket exclude each other: leave one of them out"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
