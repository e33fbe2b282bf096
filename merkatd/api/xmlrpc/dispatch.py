"""Dispatch of XML-RPC calls: from the bytes of a call to the bytes of its answer."""

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from merkatd.api.http.admission import Admission, HeldConnection
from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.http_server import CallFactory, ListeningPort, opened
from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc import codec
from merkatd.api.xmlrpc.call_parsing import Parsing
from merkatd.api.xmlrpc.codec import RpcCall, XmlBodies, claimed_session
from merkatd.api.xmlrpc.errors import Code, FaultCode, Refusal, RpcFault
from merkatd.api.xmlrpc.method_table import Method
from merkatd.api.xmlrpc.methods import METHODS
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import (
    NO_ID,
    ConflictError,
    InvalidRequestError,
    NotAuthenticatedError,
    NotPermittedError,
    RequestError,
    TooManyRequestsError,
    TryAgainError,
    UnknownObjectError,
)
from merkatd.service.services import DaemonServices

_LONGEST_LOGGED = 200
_log = Logger()


class Dispatch:
    """The dispatcher of calls to their methods."""

    def __init__(self, services: DaemonServices, settings: ApiSettings, clock: Any) -> None:
        self.house = services
        self.admission = Admission(services.sign_ins, settings, clock)
        self._parsing = Parsing(clock, settings.depth)

    async def answer(self, body: bytes, address: str) -> bytes | HeldConnection:
        """Return the answer to a call from this address."""
        try:
            method, session, arguments = await self._taken(body, address)
        except RpcFault as wrong:
            return codec.fault(wrong)
        except RequestError as error:
            refused = codec.refused("merkat", refusal_of("merkat", error))
            return _held_if_too_many(error, refused)
        try:
            done = await self._done(method, session, arguments, address, len(body))
            if codec.is_large(done):
                return await self.house.world.executor.run(lambda: codec.answer(done))
            return codec.answer(done)
        except RpcFault as wrong:
            return codec.fault(wrong)
        except Exception as error:  # noqa: BLE001 - each caller gets an answer, and the daemon goes on
            refused = codec.refused(method.name, refusal_of(method.name, error))
            return _held_if_too_many(error, refused)

    async def _taken(self, body: bytes, address: str) -> tuple[Method, str, list[Any]]:
        """Parse a call if its caller is within its limits. Raise RpcFault or RequestError."""
        size = len(body)
        wait_s = self.admission.wait_s(address, size)
        claimed = claimed_session(body)
        known = self.admission.knows(claimed)
        if not known:
            # Parsing is the most expensive part of most calls, so calls over the limit skip it.
            self.admission.heed(address, wait_s, known=False)
        key = (known, claimed.partition(":")[0] if known else address)
        method, session, arguments = _checked(await self._parsing.call_of(body, key))
        known = self.admission.knows(session)
        self.admission.heed(address, wait_s, known=known, size=size)
        return method, session, arguments

    async def _done(
        self, method: Method, session: str, arguments: list[Any], address: str, size: int
    ) -> Any:
        async def done(caller: Caller) -> Any:
            try:
                return await method.done(self.house, caller, arguments)
            except RequestError as error:
                if method.order:
                    self.house.refusals.note(caller, method.name, str(error))
                raise

        return await self.admission.admitted(session, address, done, size)


def _held_if_too_many(error: Exception, answer: bytes) -> bytes | HeldConnection:
    """Return the answer, marked as delayed if its caller is over a limit."""
    return HeldConnection(answer) if isinstance(error, TooManyRequestsError) else answer


def _checked(call: RpcCall) -> tuple[Method, str, list[Any]]:
    """Return the method, the session string and the other arguments. Raise RpcFault."""
    method = METHODS.get(call.method)
    if method is None:
        raise RpcFault(FaultCode.UNKNOWN_METHOD, f"Method {call.method[:60]!r} not defined")
    if not call.arguments or type(call.arguments[0]) is not str:
        raise RpcFault(
            FaultCode.WRONG_TYPE,
            f'{method.name}: the first argument must be the session string, "user:password"',
        )
    return method, call.arguments[0], method.completed(call.arguments[1:])


def printable(text: str) -> str:
    """Return an untrusted text in a form safe for logs: short, and on one line."""
    return ascii(text[:_LONGEST_LOGGED])[1:-1]


def refusal_of(method: str, error: Exception) -> Refusal:
    """Return the answer to a caller for an error in its call."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return Refusal(code, str(error), getattr(error, "oid", NO_ID))
    _log.failure("The call {method} failed", method=printable(method))
    return Refusal(Code.INTERNAL, "the daemon failed to answer; its log says why")


_CODES: Mapping[type[Exception], Code] = {
    NotAuthenticatedError: Code.AUTHENTICATION,
    NotPermittedError: Code.AUTHORIZATION,
    UnknownObjectError: Code.NO_EXISTS,
    TryAgainError: Code.ACTION,
    InvalidRequestError: Code.RPC_API,
    ConflictError: Code.RPC_API,
    CloudUnreachableError: Code.INTERNAL,
    CancelledError: Code.INTERNAL,
}
"""The codes of errors; the first matching type applies."""


def serve(reactor: Any, settings: ApiSettings, dispatch: Dispatch) -> ListeningPort:
    """Open the port. Raise NotServedError."""
    proxies = TrustedProxies(settings.trusted_proxies or ())
    known = dispatch.admission.known
    factory = CallFactory(reactor, settings, dispatch.answer, proxies, known, XmlBodies())
    return opened(reactor, settings, factory, "api")
