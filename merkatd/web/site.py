"""The web site: each request's session, permissions, answer and errors."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from secrets import compare_digest
from urllib.parse import urlencode

from twisted.logger import Logger

from merkatd.api.xmlrpc.dispatch import Dispatch
from merkatd.base.deferreds import SharedResult
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import NotAuthenticatedError, TooManyRequestsError, TryAgainError
from merkatd.service.base.identity import LONGEST_SESSION, Identity
from merkatd.service.base.period_view import QuotedView
from merkatd.service.base.visibility import own_vm_rows
from merkatd.web import pages
from merkatd.web.base.error_statuses import status_of, text_of
from merkatd.web.base.form_reader import MOST_FORM_BYTES
from merkatd.web.base.goals import Goals
from merkatd.web.base.live_updates import Listener, Listeners
from merkatd.web.base.long_memory import LongPast
from merkatd.web.base.responses import (
    LOOK_AGAIN,
    BrowserRequest,
    LiveResponse,
    PageResponse,
    asset,
    page,
    redirect,
)
from merkatd.web.base.routes import LONGEST_ADDRESS, PageRequest, Route, find, local_address
from merkatd.web.base.stored_answers import NotStoredError, PageRead, StoredAnswers
from merkatd.web.browser_sessions import BrowserSession, BrowserSessions
from merkatd.web.layout.page_frame import SIGN_IN, not_now, sign_in_page, wrong_page

ASSETS = "/files/"
LIVE = "/live"
SIGN_OUT = "/sign-out"
MOST_SIGN_IN_BYTES = 12 * LONGEST_SESSION + 3 * LONGEST_ADDRESS + 256
"""The largest sign-in form, in bytes: a character of the name and password has up to four bytes,
and the form encodes each byte with three; so it does with the address to return to."""
_VMS_OF_A_CALL = 500
"""The VMs of a visitor for which a page counts as another call: a page about 5,000 VMs takes up to
40 ms of the event loop's thread."""
_BYTES_OF_A_CALL = 8_192
"""The bytes of a page for which it counts as another call: the event loop's thread creates 8 KiB in
up to 6 ms, and a tenant chooses how many orders and VMs its pages have."""
_DONE = HTTPStatus.SEE_OTHER
"""The status of the answer to an order that was carried out."""
_log = Logger()
_HOLD_ROUTES = pages


class WebSite:
    """The page, with the sessions of all visitors."""

    def __init__(
        self,
        dispatch: Dispatch,
        sessions: BrowserSessions,
        listeners: Listeners,
        *,
        recall: StoredAnswers,
        cookie: str,
        secure: bool,
    ) -> None:
        self._house = dispatch.house
        # Pages have an admission of their own, so that hanging calls of tenants don't delay them.
        self._admission = dispatch.admission.apart("web page")
        self._sessions = sessions
        self._listeners = listeners
        self._recall = recall
        self._cookie = cookie
        self._more = "; Secure" if secure else ""
        self.goals = Goals()
        self.past = LongPast()

    async def visit(self, asked: BrowserRequest) -> PageResponse | LiveResponse:
        """Return the answer to any request; a form is parsed only after its sender is admitted."""
        if asked.path.startswith(ASSETS) and asked.method in {"GET", "HEAD"}:
            return asset(asked.path.removeprefix(ASSETS)) or _nothing()
        # Scripts ask for live updates, and again if they are refused; browsers add no header there.
        by_hand = asked.by_hand and asked.path != LIVE
        session = self._sessions.of(asked.cookie, by_hand=by_hand)
        wait_s = self._admission.wait_s(asked.address, asked.size)
        try:
            known = session is not None
            self._admission.heed(asked.address, wait_s, known=known, size=asked.size)
        except TooManyRequestsError as refusal:
            return wrong_page(refusal.text, HTTPStatus.TOO_MANY_REQUESTS)
        if asked.method == "POST" and not asked.own:
            text = "The browser did not confirm that this form was sent by a page of this site."
            return wrong_page(text, HTTPStatus.FORBIDDEN)
        if asked.path == SIGN_IN:
            return _too_long(asked, MOST_SIGN_IN_BYTES) or await self._sign_in(asked)
        if session is None:
            return _sign_in_first(asked)
        return await self._known(asked, session)

    async def _known(
        self, asked: BrowserRequest, session: BrowserSession
    ) -> PageResponse | LiveResponse:
        """Return the answer to a visitor with a session."""
        if (asked.method, asked.path) == ("POST", SIGN_OUT):
            return _too_long(asked, MOST_FORM_BYTES) or self._signed_out(asked, session)
        route = find(asked.method, asked.path)
        if route is None and (asked.method, asked.path) != ("GET", LIVE):
            return _nothing()
        refused = None if route is None else _too_long(asked, route[0].most)
        if refused is not None:
            return refused

        async def work(caller: Caller) -> PageResponse | LiveResponse:
            if asked.method == "POST" and not _same(asked.field("form"), session.form):
                return _expired()
            if route is None:
                return self._listen(caller, session)
            return await self._shown(asked, session, caller, *route)

        try:
            if asked.method == "POST":
                return await self._ordered(asked, session, work)
            return await self._admitted(asked, session, work)
        except Exception as error:  # noqa: BLE001 - the daemon must survive and answer each visitor
            return self._error_response(asked, session, error)

    async def _admitted(
        self,
        asked: BrowserRequest,
        session: BrowserSession,
        work: Callable[[Caller], Awaitable[PageResponse | LiveResponse]],
    ) -> PageResponse | LiveResponse:
        """Return the response of the work, once the user's login and limits admit the request."""
        return await self._admission.admitted(session.login, asked.address, work, asked.size)

    def _signed_out(self, asked: BrowserRequest, session: BrowserSession) -> PageResponse:
        if not _same(asked.field("form"), session.form):
            return _expired()
        self._sessions.end(session)
        return self._with_cookie(redirect(SIGN_IN), "", gone=True)

    async def _ordered(
        self,
        asked: BrowserRequest,
        session: BrowserSession,
        work: Callable[[Caller], Awaitable[PageResponse | LiveResponse]],
    ) -> PageResponse | LiveResponse:
        """Return the answer to an order; if the database hangs, the order continues without it."""
        if self._recall.hangs:
            return wrong_page(
                "The database does not answer. Nothing was done; try again in a moment.",
                HTTPStatus.SERVICE_UNAVAILABLE,
            )
        running = SharedResult(self._admitted(asked, session, work))
        if await self._recall.outlast(running, self._house.daemon.touch_database):
            return await running.result()
        return wrong_page(
            "The database does not answer. The daemon may still carry out the order: check before"
            " you repeat it.",
            HTTPStatus.SERVICE_UNAVAILABLE,
        )

    async def _shown(
        self, asked: BrowserRequest, session: BrowserSession, caller: Caller, route: Route, id_: int
    ) -> PageResponse | LiveResponse:
        if route.admin:
            require_admin(caller, route.path)
        said = ""
        if (asked.method, asked.by_hand) == ("GET", True):
            said = self._sessions.said(session, asked.path)
        reading = self._recall.reading(visitor=caller.identity.uid)
        prepared = await self._prepared(reading)
        if prepared is not None and not caller.is_admin:
            own = len(own_vm_rows(prepared.now, caller.uid))
            self._admission.count_more(caller.uid, own / _VMS_OF_A_CALL)
        here = PageRequest(
            house=self._house,
            goals=self.goals,
            past=self.past,
            caller=caller,
            asked=asked,
            form=session.form,
            id=id_,
            prepared=prepared,
            reading=reading,
            said=said,
        )
        try:
            answer = await route.function(here)
        except NotStoredError as error:
            return await not_now(here, str(error))
        if isinstance(answer, PageResponse) and not caller.is_admin:
            self._admission.count_more(caller.uid, len(answer.body) / _BYTES_OF_A_CALL)
        if route.changes and isinstance(answer, PageResponse) and answer.status == _DONE:
            self._listeners.changed(caller.uid, admin=caller.is_admin)
            self._sessions.say(session, dict(answer.headers).get("Location", ""), answer.said)
        return answer

    async def _prepared(self, reading: PageRead) -> QuotedView | None:
        """Return the latest period, None before the first."""
        try:
            view = await self._house.views.prepared()
        except TryAgainError:
            return None
        await reading.settle(self.past.adding)
        return view

    def _listen(self, caller: Caller, session: BrowserSession) -> PageResponse | LiveResponse:
        user = caller.identity.uid
        if not self._listeners.room(user):
            return wrong_page(
                "Too many pages receive live updates already. Close some of them.",
                HTTPStatus.TOO_MANY_REQUESTS,
            )

        def begin(listener: Listener) -> None:
            self._listeners.add(
                listener, user, lambda: self._sessions.alive(session), admin=caller.is_admin
            )

        return LiveResponse(begin)

    async def _sign_in(self, asked: BrowserRequest) -> PageResponse:
        if asked.method != "POST":
            return sign_in_page(to=local_address(asked.query.field("to")))
        to = local_address(asked.field("to"))
        login = f"{asked.field('user')}:{asked.field('password')}"

        async def who(caller: Caller) -> Identity:
            return caller.identity

        try:
            user = await self._admission.admitted(login, asked.address, who)
        except Exception as error:  # noqa: BLE001 - as above
            return sign_in_page(_sentence(error), asked.field("user"), status_of(error), to)
        _log.info("User {name} signed in to the web page", name=user.name)
        token = self._sessions.begin(login, user.uid, instead_of=asked.cookie)
        return self._with_cookie(redirect(to), token)

    def _error_response(
        self, asked: BrowserRequest, session: BrowserSession, error: Exception
    ) -> PageResponse:
        """Return the page for an error; end the session if its login is no longer valid."""
        if isinstance(error, NotAuthenticatedError):
            # The password was changed, or the user was removed.
            self._sessions.end(session)
            return _sign_in_first(asked)
        text, status = text_of(asked.path, error), status_of(error)
        if status is HTTPStatus.NOT_FOUND:
            return _nothing()
        answer = wrong_page(text, status)
        if status is HTTPStatus.SERVICE_UNAVAILABLE and asked.method == "GET":
            return replace(answer, headers=LOOK_AGAIN)
        return answer

    def _with_cookie(self, answer: PageResponse, token: str, *, gone: bool = False) -> PageResponse:
        ending = "; Max-Age=0" if gone else ""
        value = f"{self._cookie}={token}; Path=/; HttpOnly; SameSite=Strict{self._more}{ending}"
        headers = (*answer.headers, ("Set-Cookie", value))
        return PageResponse(answer.body, answer.status, answer.kind, headers)


def _same(given: str, right: str) -> bool:
    """Compare secrets as bytes: `compare_digest` refuses text beyond ASCII."""
    return compare_digest(given.encode(), right.encode())


def _expired() -> PageResponse:
    text = "This form has expired. Reload the page and try again."
    return wrong_page(text, HTTPStatus.FORBIDDEN)


def _too_long(asked: BrowserRequest, most: int) -> PageResponse | None:
    """Return the answer to a form that is too long for its page, None for others."""
    if asked.method != "POST" or asked.size <= most:
        return None
    text = f"A form for this page must have at most {most} bytes (got {asked.size})."
    return wrong_page(text, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _sign_in_first(asked: BrowserRequest) -> PageResponse:
    """Redirect people to the sign-in page, which returns; return an error to scripts."""
    if asked.by_hand and asked.path != LIVE and asked.method in {"GET", "HEAD"}:
        query = asked.query.text
        to = local_address(f"{asked.path}?{query}" if query else asked.path)
        return redirect(SIGN_IN if to == "/" else f"{SIGN_IN}?{urlencode({'to': to})}")
    return page("Sign in first.", HTTPStatus.UNAUTHORIZED)


def _nothing() -> PageResponse:
    return wrong_page("This page does not exist, or you may not see it.", HTTPStatus.NOT_FOUND)


def _sentence(error: Exception) -> str:
    if isinstance(error, NotAuthenticatedError):
        return "Wrong user name or password."
    return text_of("sign-in", error)
