"""A failure inside of a page is logged with the request and without secrets."""

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from merkatd.web.base.responses import BrowserRequest, PageResponse
from tests.web.visits import ADDRESS, HOST, Visits

FORM = (
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 16\r\n\r\npassword=hush123"
)


async def fail(_asked: BrowserRequest) -> PageResponse:
    """Fail like a page with an error."""
    raise ZeroDivisionError("one by nothing")


def test_a_failure_is_logged_with_the_request() -> None:
    """Method, path and reason are on one line, without query and form."""
    with capturedLogs() as logged:
        answer = Visits(fail).say(b"POST /vms/%0A7?x=hush456 HTTP/1.1\r\n" + HOST + FORM)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"<!doctype html>" in answer
    (event,) = [event for event in logged if event.get("log_failure")]
    text = formatEvent(event)
    assert text == "POST /vms/%0A7 failed"
    assert "hush" not in text
    assert event["log_failure"].check(ZeroDivisionError)


def test_a_late_answer_is_not_a_failure() -> None:
    """The visitor gets a page of its own, and nothing is logged."""

    async def never(_asked: BrowserRequest) -> PageResponse:
        waiting: Deferred[PageResponse] = Deferred()
        return await waiting

    visits = Visits(never)
    made = visits.connect()
    assert made is not None
    channel, transport = made
    with capturedLogs() as logged:
        channel.dataReceived(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert transport.value() == b""
        visits.clock.pump([1.0] * 32)
    assert transport.value().startswith(b"HTTP/1.1 504 ")
    assert b"<!doctype html>" in transport.value()
    assert logged == []


def test_an_address_behind_a_proxy_has_a_limit_of_requests() -> None:
    """The next request is rejected with a page, and other addresses are served."""
    asked: list[str] = []

    async def never(visit: BrowserRequest) -> PageResponse:
        asked.append(visit.address)
        waiting: Deferred[PageResponse] = Deferred()
        hanging.append(waiting)
        return await waiting

    hanging: list[Deferred[PageResponse]] = []
    visits = Visits(never, [ADDRESS], connections_per_address=2)
    head = b"GET / HTTP/1.1\r\n" + HOST + b"X-Forwarded-For: 203.0.113.%d\r\n\r\n"
    answers = [visits.say(head % 5) for _ in range(3)]
    assert answers[:2] == [b"", b""]
    assert answers[2].startswith(b"HTTP/1.1 429 ")
    assert b"\r\nConnection: close\r\n" in answers[2]
    assert b"Too many calls of this address at a time" in answers[2]
    assert visits.say(head % 6) == b""
    assert asked == ["203.0.113.5", "203.0.113.5", "203.0.113.6"]
