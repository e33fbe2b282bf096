"""Pages are kept up to date: one event a period, to a bounded number, and to nobody else."""

import http.client
import json
from contextlib import ExitStack, closing

from merkatd.web.base.live_updates import Listener, Listeners
from tests.api.xmlrpc.site import ANN, BOB
from tests.web.browser import Browser
from tests.web.site import PageSite


def listening(browser: Browser, stack: ExitStack) -> http.client.HTTPResponse:
    """A page that listens, until the stack ends."""
    connection = stack.enter_context(closing(http.client.HTTPConnection(browser.where, timeout=60)))
    connection.request("GET", "/live", headers={"Cookie": browser.cookie})
    return stack.enter_context(connection.getresponse())


def test_a_period_is_told(site: PageSite) -> None:
    """With no more in it than its number, its time, and how long pages should take turns."""
    with ExitStack() as stack:
        stream = listening(site.browser(ANN), stack)
        assert stream.headers["Content-Type"] == "text/event-stream"
        lines = [stream.readline() for _ in range(4)]
        while b"event: period\n" not in lines:
            lines.append(stream.readline())
        told = stream.readline() if lines[-1] == b"event: period\n" else lines[-1]
        assert set(json.loads(told.removeprefix(b"data: "))) == {"period", "at_s", "spread_ms"}


def test_an_order_is_told_to_the_other_pages(site: PageSite) -> None:
    """Each order of one browser is an event for the others; a quote is none."""
    ann, admin = site.browser(ANN), site.browser(site.admin)
    with ExitStack() as stack:
        site.pause()
        try:
            stream = listening(admin, stack)
            assert ann.post(f"/vms/{site.vm}/quote", cpu="3").status == 200
            assert ann.post("/vms/0/bid", cpu="2").status == 303
            assert ann.post(f"/platforms/{site.platform}/quote", budget="100").status == 200
            assert admin.post("/orders/resume").status == 303
            events = []
            while b"event: period\n" not in events:
                line = stream.readline()
                assert line, "the stream ended"
                events += [line] * line.startswith(b"event: ")
        finally:
            site.resume()
    assert events == [b"event: change\n"] * 2 + [b"event: period\n"]


def test_only_so_many_listen(site: PageSite) -> None:
    """Of one user, and at all; who leaves makes room."""
    ann, bob = site.browser(ANN), site.browser(BOB)
    with ExitStack() as stack:
        assert [listening(ann, stack).status for _ in range(3)] == [200, 200, 429]
        assert [listening(bob, stack).status for _ in range(2)] == [200, 429]
    while True:
        with ExitStack() as stack:
            if listening(ann, stack).status == 200:
                return


def test_who_leaves_hears_no_more(site: PageSite) -> None:
    """The stream ends with the session."""
    ann = site.browser(ANN)
    with ExitStack() as stack:
        stream = listening(ann, stack)
        ann.post("/sign-out")
        assert stream.read().startswith(b"retry: ")


class _NoClock:
    def callLater(self, *_: object) -> "_NoClock":  # noqa: N802 - Twisted's name
        return self

    def cancel(self) -> None:
        """Nothing was begun."""


def test_who_does_not_read_is_dropped() -> None:
    """Nobody waits for it, and nothing is kept for it."""
    listeners = Listeners(_NoClock(), most=5, most_per_user=5)
    written: list[bytes] = []
    dropped: list[str] = []
    ended: list[Listener] = []

    def drop() -> None:
        dropped.append("slow")
        slow.gone()

    slow, quick = (
        Listener(written.append, lambda: None, drop),
        Listener(written.append, lambda: ended.append(quick), lambda: None),
    )
    for one in (slow, quick):
        listeners.add(one, 1, lambda: True)
    slow.slow = True
    listeners.changed(1, admin=False)
    assert dropped == ["slow"]
    assert len(listeners) == 1
    assert len(written) == 3
    listeners.close()
    assert ended == [quick]
