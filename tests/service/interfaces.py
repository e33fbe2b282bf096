"""All three interfaces of a daemon in virtual time, with their answers in their own forms."""

import json
import xmlrpc.client
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from twisted.internet.defer import ensureDeferred

from merkatd.api.control.control_questions import DaemonQuestions
from merkatd.api.control.control_server import ControlFactory
from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc.dispatch import Dispatch
from merkatd.groups.group_keeper import Keeper
from merkatd.platforms.manager import Manager
from merkatd.service.base.identity import SignIns
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.base.turns import FairTurns
from merkatd.service.services import services_of
from merkatd.web.base.form_reader import Form
from merkatd.web.base.live_updates import Listeners
from merkatd.web.base.responses import BrowserRequest, PageResponse
from merkatd.web.base.stored_answers import StoredAnswers
from merkatd.web.browser_sessions import BrowserSession, BrowserSessions
from merkatd.web.site import WebSite
from tests.scheduler.frontend import Frontend

_MANY = 1e9


class NotedTurns(FairTurns):
    """The turns of long reads, and the users that took one."""

    def __init__(self) -> None:
        super().__init__(2, per_key=1)
        self.taken: list[Any] = []

    async def run(self, key: Any, work: Any) -> Any:
        """Wait for a turn, and note its user."""
        self.taken.append(key)
        return await super().run(key, work)


class Interfaces:
    """The control socket, XML-RPC and the web page of one frontend."""

    def __init__(
        self, frontend: Frontend, manager: Manager | None = None, keeper: Keeper | None = None
    ) -> None:
        self.frontend, clock = frontend, frontend.clock
        sign_ins = SignIns(frontend.transport, clock, kept_s=_MANY, refusal_kept_s=2.0)
        ask = frontend.client.call
        orders = OrderCounts(clock, _MANY)
        self.services = services_of(frontend.scheduler, sign_ins, orders, ask, "1", manager, keeper)
        self._control = ControlFactory(clock, DaemonQuestions(self.services))
        settings = ApiSettings(user_calls=_MANY, address_calls=_MANY, user_orders=_MANY)
        self._dispatch = Dispatch(self.services, settings, clock)
        self._sessions = BrowserSessions(
            clock.seconds, longest_s=_MANY, idle_s=_MANY, most_per_user=9
        )
        self._site = WebSite(
            self._dispatch,
            self._sessions,
            Listeners(clock, most=9, most_per_user=9),
            recall=StoredAnswers(clock, frontend.wall_s),
            cookie="merkat",
            secure=False,
        )

    def noted_turns(self) -> NotedTurns:
        """New turns of the long reads, which note their users."""
        turns = NotedTurns()
        object.__setattr__(self.services, "long_reads", turns)
        return turns

    def periods(self, count: int) -> None:
        """Run `count` periods; the last one can be queried."""
        for _ in range(count):
            self.frontend.scheduler.latest = self.frontend.period()
            self.frontend.clock.advance(60)

    def control(self, question: str, **arguments: Any) -> Any:
        """Return the answer of the control socket, or the text of its error."""
        answer = self._control.buildProtocol(None)._reply(question, arguments)
        reply = json.loads(self.frontend.result(ensureDeferred(answer)))
        return reply.get("answer", reply.get("error"))

    async def answer_of(self, method: str, *arguments: Any) -> list[Any]:
        """Return the array of XML-RPC's answer; the first argument is the login."""
        body = xmlrpc.client.dumps(arguments, method).encode()
        raw_answer: Any = await self._dispatch.answer(body, "192.0.2.1")
        answer: Any = xmlrpc.client.loads(raw_answer)[0][0]
        return list(answer)

    def call(self, login: str, method: str, *arguments: Any) -> tuple[Any, int]:
        """Return the answer of XML-RPC and its code, 0 for success."""
        body = xmlrpc.client.dumps((login, *arguments), method).encode()
        raw_answer = self.frontend.result(ensureDeferred(self._dispatch.answer(body, "192.0.2.1")))
        answer: Any = xmlrpc.client.loads(raw_answer)[0][0]
        _, value, code = answer[:3]
        return value, code

    def page(self, login: str, path: str, **form: str) -> PageResponse:
        """Return the page's answer; with a form, the answer to the form."""
        token, session = self._session(login)
        body = urlencode({"form": session.form, **form}).encode() if form else b""
        asked = BrowserRequest(
            "POST" if form else "GET", path, Form(b""), Form(body), len(body), token,
            by_hand=True, own=True, address="192.0.2.2",
        )  # fmt: skip
        answer = self.frontend.result(ensureDeferred(self._site.visit(asked)))
        assert isinstance(answer, PageResponse)
        return answer

    def _session(self, login: str) -> tuple[str, BrowserSession]:
        token = self._sessions.begin(login, 0)
        session = self._sessions.of(token, by_hand=True)
        assert session is not None
        return token, session


def without_none(value: Any) -> Any:
    """Return an answer as XML-RPC carries it: without members that have no value."""
    if isinstance(value, dict):
        return {name: without_none(member) for name, member in value.items() if member is not None}
    return [without_none(member) for member in value] if isinstance(value, list) else value


def contended(frontend: Frontend) -> Iterator[Interfaces]:
    """Yield interfaces with Ann's VMs 0 and 1 and Bob's 2 and 3 on one host; all may use VM 1."""
    ann, bob = frontend.user("ann"), frontend.user("bob")
    for number, (bid, owner) in enumerate(((2.0, ann), (3.0, ann), (4.0, bob), (8.0, bob))):
        frontend.vm(bid, owner=owner, VCPU=4, NAME=f"vm-{number}")
    frontend.bench.ok("one.vm.chmod", 1, 1, 1, 0, 0, 0, 0, 1, 0, 0)
    made = Interfaces(frontend)
    made.periods(2)
    yield made
    frontend.close()
