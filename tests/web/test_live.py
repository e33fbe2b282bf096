"""Live updates of pages: one event a period, for a limited number of authorized listeners."""

import http.client
import json
from contextlib import ExitStack, closing

from merkatd.web.base.live_updates import Listener, Listeners
from tests.api.xmlrpc.site import ANN, BOB
from tests.web.browser import Browser
from tests.web.site import PageSite


def listen(browser: Browser, stack: ExitStack) -> http.client.HTTPResponse:
    """Open a listening page that ends with the stack."""
    connection = stack.enter_context(closing(http.client.HTTPConnection(browser.where, timeout=60)))
    connection.request("GET", "/live", headers={"Cookie": browser.cookie})
    return stack.enter_context(connection.getresponse())


def test_a_period_is_announced(site: PageSite) -> None:
    """The event has only its number, its time, and the time over which pages spread reloads."""
    with ExitStack() as stack:
        stream = listen(site.browser(ANN), stack)
        assert stream.headers["Content-Type"] == "text/event-stream"
        lines = [stream.readline() for _ in range(4)]
        while b"event: period\n" not in lines:
            lines.append(stream.readline())
        data = stream.readline() if lines[-1] == b"event: period\n" else lines[-1]
        assert set(json.loads(data.removeprefix(b"data: "))) == {"period", "at_s", "spread_ms"}


def test_an_order_is_announced_to_other_pages(site: PageSite) -> None:
    """Each order in one browser is an event for the others; a quote is not."""
    ann, admin = site.browser(ANN), site.browser(site.admin)
    with ExitStack() as stack:
        site.pause()
        try:
            stream = listen(admin, stack)
            assert ann.post(f"/vms/{site.vm}/quote", cpu="3").status == 200
            assert ann.post("/vms/0/bid", cpu="2").status == 303
            assert ann.post(f"/platforms/{site.platform}/quote", budget="100").status == 200
            assert admin.post("/daemon/resume").status == 303
            events = []
            while b"event: period\n" not in events:
                line = stream.readline()
                assert line, "the stream ended"
                events += [line] * line.startswith(b"event: ")
        finally:
            site.resume()
    assert events == [b"event: change\n"] * 2 + [b"event: period\n"]


def test_the_number_of_listeners_is_limited(site: PageSite) -> None:
    """There is a limit for each user and in all; a closed page frees a place."""
    ann, bob = site.browser(ANN), site.browser(BOB)
    with ExitStack() as stack:
        assert [listen(ann, stack).status for _ in range(3)] == [200, 200, 429]
        assert [listen(bob, stack).status for _ in range(2)] == [200, 429]
    while True:
        with ExitStack() as stack:
            if listen(ann, stack).status == 200:
                return


def test_signing_out_ends_the_stream(site: PageSite) -> None:
    """The stream ends with the session."""
    ann = site.browser(ANN)
    with ExitStack() as stack:
        stream = listen(ann, stack)
        ann.post("/sign-out")
        assert stream.read().startswith(b"retry: ")


class _NoClock:
    def callLater(self, *_: object) -> "_NoClock":  # noqa: N802 - Twisted's name
        return self

    def cancel(self) -> None:
        """Do nothing."""


def test_a_listener_that_does_not_read_is_dropped() -> None:
    """No event waits for it, and none is stored for it."""
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
    for listener in (slow, quick):
        listeners.add(listener, 1, lambda: True)
    slow.slow = True
    listeners.changed(1, admin=False)
    assert dropped == ["slow"]
    assert len(listeners) == 1
    assert len(written) == 3
    listeners.close()
    assert ended == [quick]
