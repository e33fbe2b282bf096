"""The counters of HAProxy: the shell command that reads them, and their parser. Pure.

HAProxy counts since its last reload. After a reload, which a lower counter or another process
shows, the next look is a first look again.

The response time is HAProxy's own average over about its last 1,024 requests, of the time in the
queue, to connect, and until the server answers. Its average `ttime` is not used: with connections
that clients keep open it contains the pauses between requests.
"""

import csv
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controllers.monitors.ssh_pool import MOST_BYTES
from controllers.monitors.traffic.request_window import LONGEST_S, ResponseTimes, Traffic
from merkatd.protocol.request_terms import RequestTerms

_FIRST: Final = "# pxname,"
_PROCESS: Final = "Pid:"
_DIGITS: Final = 20
_MOST_ROWS: Final = 10_000
_SAID: Final = "show info;show stat -1 3 -1"
"""The process, then only frontends and backends: there may be thousands of servers."""
_PERL: Final = (
    '$s = IO::Socket::UNIX->new(Peer => shift) or die $!; print $s shift, "\\n"; print while <$s>'
)
_SOCKET: Final = (
    "s={socket}; c={said}; if command -v socat >/dev/null; "
    'then echo "$c" | socat -t 10 - "UNIX-CONNECT:$s"; '
    'else perl -MIO::Socket::UNIX -e {perl} "$s" "$c"; fi'
)
_PAGE: Final = (
    "u={url}; if command -v curl >/dev/null; "
    'then curl -gsfm 10 -- "$u"; else wget -qT 10 -t 1 -O - -- "$u"; fi'
)
_ANSWERED: Final = ("hrsp_1xx", "hrsp_2xx", "hrsp_3xx", "hrsp_4xx", "hrsp_5xx", "hrsp_other")
_TIMES: Final = ("qtime", "ctime", "rtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The counters of one frontend or backend."""

    http: bool
    requests: int
    """Sessions without HTTP."""
    answered: int
    failed: int
    response_s: float | None
    """The average response time of a backend; None if HAProxy states none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaproxyState:
    """All counters at one moment."""

    process: str
    """The id of HAProxy's process; empty if unknown."""
    frontends: Mapping[str, Counters]
    backends: Mapping[str, Counters]


def stats_command(terms: RequestTerms) -> str:
    """Return the POSIX shell command that reads the counters."""
    if terms.url:
        return _PAGE.format(url=shlex.quote(terms.url))
    return _SOCKET.format(
        socket=shlex.quote(terms.socket), said=shlex.quote(_SAID), perl=shlex.quote(_PERL)
    )


def read_stats(answer: bytes, terms: RequestTerms) -> HaproxyState:
    """Parse the answer to `stats_command`. Raise ValueError if it is invalid."""
    if len(answer) >= MOST_BYTES:
        raise ValueError(f"HAProxy's statistics must have less than {MOST_BYTES} bytes")
    info, mark, table = answer.decode("utf-8", "replace").partition(_FIRST)
    lines = (mark + table).split("\n")
    if not mark or len(lines) > _MOST_ROWS:
        raise ValueError(f"expected HAProxy's statistics as CSV (got {info[:80]!r})")
    try:
        head, *rows = csv.reader(lines, strict=True)
    except csv.Error as error:
        raise ValueError(f"expected HAProxy's statistics as CSV: {error}") from None
    head[0] = head[0].removeprefix("# ")
    ends: dict[str, dict[str, Counters]] = {"FRONTEND": {}, "BACKEND": {}}
    wanted = {"FRONTEND": terms.frontend, "BACKEND": terms.backend}
    for row in rows:
        values = dict(zip(head, row, strict=False))
        name, end = values.get("pxname", ""), values.get("svname", "")
        if end in ends and wanted[end] in {"", name}:
            ends[end][name] = _counters(values)
    if not ends["FRONTEND"]:
        raise ValueError(f"HAProxy has no frontend {terms.frontend!r}".removesuffix(" ''"))
    process = [line for line in info.splitlines() if line.startswith(_PROCESS)]
    return HaproxyState(
        process=process[0][:_DIGITS] if process else "",
        frontends=ends["FRONTEND"],
        backends=ends["BACKEND"],
    )


def _counters(values: Mapping[str, str]) -> Counters:
    http = values.get("mode") != "tcp"
    sessions = _number(values, "stot")
    times = [values.get(name, "") for name in _TIMES]
    response_s = sum(_number(values, name) for name in _TIMES) / 1000.0
    known = http and all(times) and response_s <= LONGEST_S
    return Counters(
        http=http,
        requests=_number(values, "req_tot") if http else sessions,
        answered=sum(_number(values, name) for name in _ANSWERED) if http else sessions,
        failed=_number(values, "hrsp_5xx"),
        response_s=response_s if known else None,
    )


def _number(values: Mapping[str, str], name: str) -> int:
    """Return a counter; 0 if HAProxy leaves it empty. Raise ValueError for anything else."""
    text = values.get(name, "") or "0"
    if not text.isdecimal() or len(text) > _DIGITS:
        raise ValueError(f"{name} must be a number of at most {_DIGITS} digits (got {text[:40]!r})")
    return int(text)


def traffic_between(before: HaproxyState, after: HaproxyState) -> Traffic | None:
    """Return the traffic between two looks; None if HAProxy was reloaded in between."""
    if before.process != after.process:
        return None
    for old, new in ((before.frontends, after.frontends), (before.backends, after.backends)):
        if old.keys() != new.keys() or any(_fell(old[name], new[name]) for name in old):
            return None
    averages = ResponseTimes()
    for name, counters in after.backends.items():
        requests = counters.requests - before.backends[name].requests
        if requests and counters.response_s is not None:
            averages.add(counters.response_s, float(requests))
    pairs = [(before.frontends[name], now) for name, now in after.frontends.items()]
    return Traffic(
        arrived=float(sum(now.requests - then.requests for then, now in pairs)),
        answered=float(sum(now.answered - then.answered for then, now in pairs)),
        failed=float(sum(now.failed - then.failed for then, now in pairs)),
        averages=averages,
    )


def _fell(then: Counters, now: Counters) -> bool:
    """Return whether a counter is lower than before, as after a reload."""
    return now.requests < then.requests or now.answered < then.answered or now.failed < then.failed


class HaproxyCounters:
    """The `TrafficSource` of HAProxy: the last counters of a cluster's VMs."""

    def __init__(self, terms: RequestTerms) -> None:
        self._terms = terms
        self._last: dict[int, HaproxyState] = {}
        self._traffic: dict[int, Traffic] = {}

    def begin(self, vms: Iterable[int]) -> None:
        """Begin a look at these VMs, and forget all others."""
        there = set(vms)
        self._last = {vm: state for vm, state in self._last.items() if vm in there}
        self._traffic = {}

    def command(self, vm: int) -> str:  # noqa: ARG002
        """Return the next command for a VM."""
        return stats_command(self._terms)

    def take(self, vm: int, answer: bytes) -> bool:
        """Take an answer; return False, as no other command is needed.

        Raise ValueError if the answer is invalid. The VM's next look is then its first again.
        """
        before = self._last.pop(vm, None)
        state = self._last[vm] = read_stats(answer, self._terms)
        traffic = None if before is None else traffic_between(before, state)
        if traffic is not None:
            self._traffic[vm] = traffic
        return False

    def traffic(self) -> Mapping[int, Traffic]:
        """Return the traffic of each VM since its last look, if it had one."""
        return self._traffic
