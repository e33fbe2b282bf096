"""What each method takes, gives and does."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from merkatd.api.xmlrpc.codec import Encoded, encoded
from merkatd.api.xmlrpc.errors import FaultCode, RpcFault
from merkatd.scheduler.phases.announce import Announcement
from merkatd.service.base.arguments import one_of
from merkatd.service.base.identity import Caller, need_admin
from merkatd.service.services import DaemonServices

SELF = -1
"""Whoever calls."""
_NEEDED: Any = object()
MAX_NUMBER = 2**31
"""OpenNebula's ids are smaller."""
KINDS: Mapping[str, type] = {"string": str, "int": int, "struct": dict}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument after the session string."""

    name: str
    kind: str
    does: str
    default: Any = _NEEDED

    @property
    def needed(self) -> bool:
        """Whether it can't be left out."""
        return self.default is _NEEDED


@dataclass(frozen=True, slots=True)
class Returns:
    """What a method answers with."""

    kind: str
    does: str
    members: Mapping[str, str]
    """Of the struct, or of each struct of the array."""
    inner: Mapping[str, str]
    """Of each struct of the member `resources`, `vms`, `movements` or `steps`."""


Function = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Method:
    """A method."""

    name: str
    does: str
    parameters: tuple[Parameter, ...]
    returns: Returns
    example: str
    """Its arguments as Python has them; `vm` and `application` stand for ids of one's own."""
    function: Function
    admin: bool = False
    """Whether administrators alone may call it."""
    order: float = 0.0
    """What it counts as among the orders of a tenant, which leave something in the database."""

    async def done(self, house: DaemonServices, caller: Caller, arguments: list[Any]) -> Any:
        """Return what comes of it for this caller, whose arguments are complete. Raises Refusal."""
        if self.admin:
            need_admin(caller.identity, self.name)
        self.count(house, caller, arguments)
        return await self.function(house, caller, *arguments)

    def count(self, house: DaemonServices, caller: Caller, arguments: list[Any]) -> None:
        """Count an order, or a quote that takes as much work as the order. Raises Refusal."""
        if self.order and not caller.identity.is_admin:
            house.orders.count(caller.identity.uid, self.order, arguments)

    def completed(self, arguments: list[Any]) -> list[Any]:
        """The arguments after the session string, with those that were left out."""
        if len(arguments) > len(self.parameters):
            raise RpcFault(
                FaultCode.WRONG_TYPE,
                f"{self.name} takes {len(self.parameters) + 1} arguments at most,"
                f" not {len(arguments) + 1}",
            )
        found = list(arguments)
        for parameter in self.parameters[len(arguments) :]:
            if parameter.needed:
                raise RpcFault(FaultCode.WRONG_TYPE, f"{self.name} needs {parameter.name}")
            found.append(parameter.default)
        for parameter, value in zip(self.parameters, found, strict=True):
            large = type(value) is int and not -MAX_NUMBER <= value < MAX_NUMBER
            if large or type(value) is not KINDS[parameter.kind]:
                raise RpcFault(
                    FaultCode.WRONG_TYPE,
                    f"{self.name}: {parameter.name} is a {parameter.kind},"
                    f" not {'a larger one' if large else f'a {type(value).__name__}'}",
                )
        return found


METHODS: dict[str, Method] = {}


def method(
    name: str,
    *parameters: Parameter,
    returns: Returns,
    example: str,
    admin: bool = False,
    order: float = 0.0,
) -> Callable[[Function], Function]:
    """Add a function to the table; its docstring says what the method does."""

    def register(function: Function) -> Function:
        does = " ".join((function.__doc__ or "").split())
        METHODS[name] = Method(name, does, parameters, returns, example, function, admin, order)
        return function

    return register


def struct(
    does: str, members: Mapping[str, str], inner: Mapping[str, str] | None = None
) -> Returns:
    """An answer that is one struct."""
    return Returns("struct", does, members, inner or {})


def structs(does: str, members: Mapping[str, str]) -> Returns:
    """An answer that is an array of structs."""
    return Returns("array of structs", does, members, {})


class WrittenPrices:
    """Remembers what was written of the latest period."""

    def __init__(self) -> None:
        self._of: Announcement | None = None
        self._written: dict[str, Encoded] = {}

    def of(self, latest: Announcement, market: str) -> Encoded:
        """The prices of one market, or of all where none is named. Raises QuestionError."""
        if self._of is not latest:
            self._of, self._written = latest, {}
        found = self._written.get(market)
        if found is None:
            if market:
                one_of({"market": market}, "market", list(latest.prices))
            found = self._written[market] = encoded(_rows(latest, market))
        return found


_KEPT = WeakKeyDictionary[DaemonServices, WrittenPrices]()


def written_prices(house: DaemonServices) -> WrittenPrices:
    """What is written of this daemon's prices."""
    found = _KEPT.get(house)
    if found is None:
        found = _KEPT[house] = WrittenPrices()
    return found


def _rows(latest: Announcement, market: str) -> list[dict[str, object]]:
    return [
        {
            "market": name,
            "resource": resource,
            "price": price,
            "period": latest.period,
            "at_s": latest.at_s,
        }
        for name, by_resource in latest.prices.items()
        for resource, price in by_resource.items()
        if market in {"", name}
    ]
