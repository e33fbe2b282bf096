"""HAProxy's counters: differences, reloads, and hostile answers."""

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.monitors.ssh_pool import MOST_BYTES
from controllers.monitors.traffic.haproxy_stats import HaproxyCounters, read_stats
from controllers.monitors.traffic.request_window import Traffic
from merkatd.protocol.request_terms import RequestTerms

TERMS = RequestTerms(source="haproxy")
HEAD = (
    "# pxname,svname,stot,hrsp_1xx,hrsp_2xx,hrsp_3xx,hrsp_4xx,hrsp_5xx,hrsp_other,req_tot,"
    "qtime,ctime,rtime,ttime,mode,"
)


@dataclass(frozen=True, slots=True)
class Proxy:
    """A HAProxy with a frontend, a backend, and a proxy of TCP."""

    requests: int = 0
    failed: int = 0
    sessions: int = 0
    rtime: str = "50"
    pid: str = "17"
    web: str = "web"

    def answer(self) -> bytes:
        """Return its answer to the command."""
        times = f"{self.rtime},4711"
        good = self.requests - self.failed
        rows = [
            f"{self.web},FRONTEND,3,0,{good},0,0,{self.failed},0,{self.requests},,,,,http,",
            f"app,BACKEND,9,0,{good},0,0,{self.failed},0,{self.requests},2,1,{times},http,",
            f"tcp,FRONTEND,{self.sessions},,,,,,,0,,,,,tcp,",
            f"tcp,BACKEND,{self.sessions},,,,,,,,0,0,0,250,tcp,",
            '"a ""b"", c",x,1,,,,,,,,,,,,http,',
        ]
        return f"Name: HAProxy\nPid: {self.pid}\n\n{HEAD}\n{chr(10).join(rows)}\n\n".encode()


class Looks:
    """The looks at one VM."""

    def __init__(self, terms: RequestTerms = TERMS) -> None:
        self.counters = HaproxyCounters(terms)

    def look(self, answer: bytes) -> Traffic | None:
        """Return the traffic since the last look; None for a first look."""
        self.counters.begin([1])
        assert not self.counters.take(1, answer)
        return self.counters.traffic().get(1)


def test_differences_count() -> None:
    """Requests count of HTTP, sessions of TCP; the times come from backends of HTTP."""
    looks = Looks()
    before = Proxy(1000, 10, 5)
    assert looks.look(before.answer()) is None
    seen = looks.look(replace(before, requests=1100, failed=12, sessions=8).answer())
    assert seen is not None
    assert (seen.arrived, seen.answered, seen.failed) == (103.0, 103.0, 2.0)
    assert seen.averages.mean_s == pytest.approx(0.053)
    assert seen.averages.count == 100.0


def test_an_idle_proxy_has_no_response_time() -> None:
    """The average is of earlier requests."""
    looks = Looks()
    looks.look(Proxy(1000).answer())
    seen = looks.look(Proxy(1000).answer())
    assert seen is not None
    assert (seen.arrived, seen.averages.count) == (0.0, 0.0)


def test_a_template_chooses_the_proxies() -> None:
    """The frontend's requests count, and the backend's time."""
    looks = Looks(replace(TERMS, frontend="web", backend="tcp"))
    looks.look(Proxy(0, 0, 0).answer())
    seen = looks.look(Proxy(100, 0, 50).answer())
    assert seen is not None
    assert (seen.arrived, seen.averages.count) == (100.0, 0.0)
    with pytest.raises(ValueError, match="no frontend 'shop'"):
        read_stats(Proxy().answer(), replace(TERMS, frontend="shop"))


@pytest.mark.parametrize(
    "after",
    [
        Proxy(90, 0, 50),
        Proxy(200, 0, 50, pid="18"),
        Proxy(200, 0, 4),
        Proxy(200, 9, 50, web="www"),
    ],
)
def test_a_reload_is_a_new_beginning(after: Proxy) -> None:
    """A counter fell, another process counts, or the proxies are others."""
    looks = Looks()
    looks.look(Proxy(100, 0, 50).answer())
    assert looks.look(after.answer()) is None
    seen = looks.look(replace(after, requests=after.requests + 7).answer())
    assert seen is not None
    assert seen.arrived == 7.0


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"Permission denied\n",
        b"# pxname,",
        Proxy().answer().replace(b",9,", b",-9,"),
        Proxy().answer().replace(b",9,", b",1e308,"),
        Proxy(int("9" * 30)).answer(),
        Proxy().answer().replace(b'c",x', b'c"x,x'),
        b"# pxname," + b"x" * 200_000,
        b"# pxname,\n" + b"\n" * 20_000,
        Proxy().answer() + b"x" * MOST_BYTES,
    ],
)
def test_an_invalid_answer_is_refused(answer: bytes) -> None:
    """The next valid answer is a first look."""
    looks = Looks()
    looks.look(Proxy(1).answer())
    with pytest.raises(ValueError, match=r"HAProxy|must be a number"):
        looks.look(answer)
    assert looks.look(Proxy(2).answer()) is None


@pytest.mark.parametrize("rtime", ["9" * 20, ""])
def test_an_impossible_time_is_unknown(rtime: str) -> None:
    """The requests count all the same."""
    looks = Looks()
    looks.look(Proxy(1, rtime=rtime).answer())
    seen = looks.look(Proxy(2, rtime=rtime).answer())
    assert seen is not None
    assert (seen.arrived, seen.averages.count) == (1.0, 0.0)


@given(st.text(alphabet='0123456789,"\n\0abc. FRONTEDBACK', max_size=300))
def test_any_answer_is_read_or_refused(text: str) -> None:
    """A VM may answer anything."""
    looks = Looks()
    for answer in (HEAD + "\n" + text, HEAD.replace("stot", "x") + "\n" + text + "1"):
        try:
            seen = looks.look(answer.encode())
        except ValueError:
            continue
        assert seen is None or math.isfinite(seen.arrived)
