"""A call from its bytes to the bytes of its answer: taken apart, allowed, done, refused."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.logger import Logger

from merkatd.api.questions import NotNowError, QuestionError
from merkatd.api.xmlrpc import encoding
from merkatd.api.xmlrpc.decoding import RpcCall, call_of
from merkatd.api.xmlrpc.methods import METHODS
from merkatd.api.xmlrpc.rates import Rates
from merkatd.api.xmlrpc.rights import need_admin
from merkatd.api.xmlrpc.settings import Settings
from merkatd.api.xmlrpc.table import Caller, House, Method
from merkatd.api.xmlrpc.words import Code, FaultCode, Refusal, RpcFault
from merkatd.ledger import LedgerError, NotFoundError
from merkatd.scheduler.ports import UnreachableError

_REFUSED_LOGIN = 10.0
"""So many calls a refused login counts as."""

_LONGEST_LOGGED = 200

_log = Logger()

Result = TypeVar("Result")


class Dispatch:
    """Answers calls."""

    def __init__(self, house: House, settings: Settings, clock: Any) -> None:
        self.house = house
        self._depth = settings.depth
        self._clock = clock
        self._users = Rates(settings.user_calls, settings.burst_s)
        self._addresses = Rates(settings.address_calls, settings.burst_s)
        self._turns: Any = DeferredSemaphore(settings.in_flight)

    async def answer(self, body: bytes, address: str) -> bytes:
        """What a call from this address is answered with."""
        try:
            self.heed(address)
            call = call_of(body, self._depth)
            found, session, arguments = _checked(call)
        except RpcFault as wrong:
            return encoding.fault(wrong)
        except Refusal as refusal:
            return encoding.refused("merkat", refusal)
        try:
            return encoding.answer(await self._done(found, session, arguments, address))
        except RpcFault as wrong:
            return encoding.fault(wrong)
        except Exception as error:  # noqa: BLE001 - each caller is answered, and the daemon lives on
            return encoding.refused(found.name, refusal_of(found.name, error))

    def heed(self, address: str) -> None:
        """Count a call from this address. Raises Refusal where there were too many."""
        _allow(self._addresses.take(address, self._clock.seconds()), f"address {address}")

    async def _done(self, found: Method, session: str, arguments: list[Any], address: str) -> Any:
        async def done(caller: Caller) -> Any:
            if found.admin:
                need_admin(caller.identity, found.name)
            return await found.function(self.house, caller, *arguments)

        return await self.admitted(session, address, done)

    async def admitted(
        self, session: str, address: str, work: Callable[[Caller], Awaitable[Result]]
    ) -> Result:
        """What comes of work for whoever has this login, when it is their turn. Raises Refusal."""
        turn: Deferred[Any] = self._turns.acquire()
        await turn
        try:
            try:
                identity = await self.house.logins.who(session)
            except Refusal:
                self._addresses.fine(address, self._clock.seconds(), _REFUSED_LOGIN)
                raise
            _allow(self._users.take(identity.uid, self._clock.seconds()), f"user {identity.uid}")
            return await work(Caller(identity, session))
        finally:
            self._turns.release()


def _checked(call: RpcCall) -> tuple[Method, str, list[Any]]:
    """The method, the session string, and the rest of what it takes. Raises RpcFault."""
    found = METHODS.get(call.method)
    if found is None:
        raise RpcFault(FaultCode.UNKNOWN_METHOD, f"Method {call.method[:60]!r} not defined")
    if not call.arguments or type(call.arguments[0]) is not str:
        raise RpcFault(
            FaultCode.WRONG_TYPE, f'{found.name}: the session string, "user:password", comes first'
        )
    return found, call.arguments[0], found.completed(call.arguments[1:])


def _allow(wait_s: float, who: str) -> None:
    if wait_s > 0:
        raise Refusal(Code.ACTION, f"Too many calls of {who}: try again in {wait_s:.2g} s.")


def printable(text: str) -> str:
    """Return text from outside as a log may hold it: on one line, and not too long."""
    return ascii(text[:_LONGEST_LOGGED])[1:-1]


def refusal_of(method: str, error: Exception) -> Refusal:
    """What a caller is told of an error in what it asked for."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RpcFault):
        return Refusal(Code.RPC_API, error.text)
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return Refusal(code, str(error))
    _log.failure("{method} failed", method=printable(method))
    return Refusal(Code.INTERNAL, "the daemon failed to answer; its log says why")


_CODES: Mapping[type[Exception], Code] = {
    NotFoundError: Code.NO_EXISTS,
    NotNowError: Code.ACTION,
    QuestionError: Code.RPC_API,
    LedgerError: Code.RPC_API,
    UnreachableError: Code.INTERNAL,
    CancelledError: Code.INTERNAL,
}
"""The first that fits counts."""
