"""The table of XML-RPC methods: arguments, answers, descriptions, functions."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from merkatd.api.values.market_rows import flat_row
from merkatd.api.xmlrpc.codec import Encoded, encoded
from merkatd.api.xmlrpc.errors import FaultCode, RpcFault
from merkatd.scheduler.phases.announce import Announcement
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.services import DaemonServices

SELF = -1
"""The argument that means the caller."""
_NEEDED: Any = object()
MAX_NUMBER = 2**31
"""The bound of integer arguments: OpenNebula's ids are smaller."""
KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "double": (float, int),
    "struct": (dict,),
    "array": (list,),
}
_VOWELS = frozenset({"array", "int"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument after the session string."""

    name: str
    kind: str
    does: str
    default: Any = _NEEDED

    @property
    def needed(self) -> bool:
        """Return whether the argument is required."""
        return self.default is _NEEDED


@dataclass(frozen=True, slots=True)
class Returns:
    """The description of a method's answer."""

    kind: str
    does: str
    members: Mapping[str, str]
    """The members of the struct, or of each struct of the array."""
    inner: Mapping[str, str]
    """The members of each struct in the member `resources`, `vms`, `movements` or `steps`."""


Function = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the tenants' interface."""

    name: str
    does: str
    parameters: tuple[Parameter, ...]
    returns: Returns
    example: str
    """Its arguments in Python; `vm` and `application` stand for the caller's ids."""
    function: Function
    admin: bool = False
    """Whether only administrators may call it."""
    order: float = 0.0
    """Its weight in the limit of orders, which leave data in the database; 0 for other calls."""

    async def done(self, services: DaemonServices, caller: Caller, arguments: list[Any]) -> Any:
        """Return the method's value for this caller and complete arguments. Raise RequestError."""
        if self.admin:
            require_admin(caller, self.name)
        self.count(services, caller, arguments)
        return await self.function(services, caller, *arguments)

    def count(self, services: DaemonServices, caller: Caller, arguments: list[Any]) -> None:
        """Count an order, or a quote that takes as much work as an order. Raise RequestError."""
        if self.order and not caller.identity.is_admin:
            services.orders.count(caller.identity.uid, self.order, arguments)

    def completed(self, arguments: list[Any]) -> list[Any]:
        """Return the arguments after the session string, with defaults. Raise RpcFault."""
        if len(arguments) > len(self.parameters):
            raise RpcFault(
                FaultCode.WRONG_TYPE,
                f"{self.name} takes at most {len(self.parameters) + 1} arguments"
                f" (got {len(arguments) + 1})",
            )
        values = list(arguments)
        for parameter in self.parameters[len(arguments) :]:
            if parameter.needed:
                raise RpcFault(
                    FaultCode.WRONG_TYPE, f"{self.name}: the argument {parameter.name} is missing"
                )
            values.append(parameter.default)
        for parameter, value in zip(self.parameters, values, strict=True):
            large = type(value) is int and not -MAX_NUMBER <= value < MAX_NUMBER
            large = large and parameter.kind != "double"
            if large or type(value) not in KINDS[parameter.kind]:
                raise RpcFault(
                    FaultCode.WRONG_TYPE,
                    f"{self.name}: {parameter.name} must be"
                    f" {'an' if parameter.kind in _VOWELS else 'a'} {parameter.kind}"
                    f" (got {'a larger number' if large else type(value).__name__})",
                )
        return values


def whom(caller: Caller, tenant: int) -> int:
    """Return the id of a tenant, which SELF names for the caller."""
    return caller.uid if tenant == SELF else tenant


METHODS: dict[str, Method] = {}


def method(
    name: str,
    *parameters: Parameter,
    returns: Returns,
    example: str,
    admin: bool = False,
    order: float = 0.0,
) -> Callable[[Function], Function]:
    """Return a decorator that adds a function to the table; its docstring describes the method."""

    def register(function: Function) -> Function:
        does = " ".join((function.__doc__ or "").split())
        METHODS[name] = Method(name, does, parameters, returns, example, function, admin, order)
        return function

    return register


def struct(
    does: str, members: Mapping[str, str], inner: Mapping[str, str] | None = None
) -> Returns:
    """Describe an answer that is a struct."""
    return Returns("struct", does, members, inner or {})


def structs(does: str, members: Mapping[str, str]) -> Returns:
    """Describe an answer that is an array of structs."""
    return Returns("array of structs", does, members, {})


class WrittenPrices:
    """The cache of the latest period's encoded prices."""

    def __init__(self) -> None:
        self._of: Announcement | None = None
        self._written: dict[str, Encoded] = {}

    def of(self, services: DaemonServices, market: str) -> Encoded:
        """Return the prices of a market, or of all for an empty name. Raise RequestError."""
        latest = services.views.latest
        if self._of is not latest:
            self._of, self._written = latest, {}
        written = self._written.get(market)
        if written is None:
            rows = services.prices.present(market or None)
            written = self._written[market] = encoded([flat_row(row) for row in rows])
        return written


_KEPT = WeakKeyDictionary[DaemonServices, WrittenPrices]()


def written_prices(services: DaemonServices) -> WrittenPrices:
    """Return the cache of this daemon's prices."""
    written = _KEPT.get(services)
    if written is None:
        written = _KEPT[services] = WrittenPrices()
    return written
