"""A call: its caller, its refusals with oned's texts, and the registry of all methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from merkatd.embedded.model import template_text
from merkatd.embedded.model.access import ObjectType, Right, Target, allowed, is_admin, vm_target
from merkatd.embedded.model.errors import (
    AUTHORIZATION,
    INTERNAL,
    NO_EXISTS,
    WRONG_TYPE,
    OneFault,
    OneRefusal,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from merkatd.embedded.machines.faults import Faults
    from merkatd.embedded.machines.host_failures import HostFailures
    from merkatd.embedded.machines.host_simulation import HostSimulation
    from merkatd.embedded.machines.lifecycle import Lifecycle
    from merkatd.embedded.machines.power_meter import PowerMeter
    from merkatd.embedded.machines.usage_samples import Monitoring
    from merkatd.embedded.model.records import HistoryRecord, Host, User, Vm
    from merkatd.embedded.model.settings import HostSize
    from merkatd.embedded.model.template_text import Template
    from merkatd.embedded.model.world import ObjectTable, Record, World
    from merkatd.embedded.render.render_cache import PoolReply, RenderCache


Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain]"
"""The values that XML-RPC can carry."""
Answer: TypeAlias = "Plain | PoolReply"
Function: TypeAlias = "Callable[..., Answer]"
T = TypeVar("T", bound="Record")
_LABELS = {
    ObjectType.VM: "virtual machine",
    ObjectType.HOST: "host",
    ObjectType.IMAGE: "image",
    ObjectType.NET: "virtual network",
    ObjectType.USER: "user",
    ObjectType.GROUP: "group",
    ObjectType.ACL: "ACL",
    ObjectType.DATASTORE: "datastore",
    ObjectType.CLUSTER: "cluster",
    ObjectType.VMGROUP: "vm group",
    ObjectType.TEMPLATE: "virtual machine template",
}


@dataclass(frozen=True, slots=True)
class OneMethod:
    """A method: its parameter types and its function."""

    name: str
    required: str
    optional: str
    function: Function


METHODS: dict[str, OneMethod] = {}


def method(name: str, types: str = "") -> Callable[[Function], Function]:
    """Register a function; types are `i`, `s`, `b`, `a` (any), optional ones after `?`."""
    required, _, optional = types.partition("?")

    def register(function: Function) -> Function:
        METHODS[name] = OneMethod(name, required, optional, function)
        return function

    return register


_TYPES: dict[str, Callable[[Any], bool]] = {
    "i": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "s": lambda value: type(value) is str,
    "b": lambda value: type(value) is bool,
    "a": lambda _value: True,
}
_TYPE_NAMES = {"i": "integer", "s": "a string", "b": "boolean"}


def check_types(called: OneMethod, values: list[Any]) -> None:
    """Raise OneFault if arguments are missing or of the wrong type."""
    if len(values) < len(called.required):
        raise OneFault(WRONG_TYPE, "Not enough parameters")
    for kind, value in zip(called.required + called.optional, values, strict=False):
        if not _TYPES[kind](value):
            raise OneFault(
                WRONG_TYPE, f"Parameter that is supposed to be {_TYPE_NAMES[kind]} is not"
            )


class CalledCloud(Protocol):
    """The parts of a cloud that calls use."""

    world: World
    host_size: HostSize
    lifecycle: Lifecycle
    guests: HostSimulation
    monitoring: Monitoring
    cache: RenderCache
    faults: Faults
    failures: HostFailures
    power: PowerMeter
    requests: int


_LOCKED = {
    1: frozenset({Right.MANAGE, Right.ADMIN}),
    2: frozenset({Right.MANAGE, Right.ADMIN}),
    3: frozenset({Right.ADMIN}),
}
"""The forbidden rights by level of a lock. Reading is always allowed."""


@dataclass(frozen=True, slots=True)
class MethodCall:
    """A call by a user."""

    cloud: CalledCloud
    user: User
    method: str

    # -- objects ------------------------------------------------------------------------------

    def find(self, table: ObjectTable[T], kind: ObjectType, oid: int) -> T:
        """Return an object; refuse the call if it does not exist."""
        row = table.get(oid)
        if row is None:
            raise OneRefusal(NO_EXISTS, f"Error getting {_LABELS[kind]} [{oid}].", oid)
        return row

    def vm(self, oid: int, right: Right) -> Vm:
        """Return a VM to which the caller has a right; a lock applies to administrators too."""
        vm = self.find(self.cloud.world.vms, ObjectType.VM, oid)
        if vm.lock is not None and right in _LOCKED[vm.lock.level]:
            why = "VM is locked." if self.admin else f"Not authorized to perform {right.name} VM"
            raise OneRefusal(AUTHORIZATION, f"User [{self.user.id}] : {why} [{oid}].")
        self.need(right, vm_target(vm))
        return vm

    def host(self, oid: int) -> Host:
        """Return a host, without a check of rights."""
        return self.find(self.cloud.world.hosts, ObjectType.HOST, oid)

    # -- rights -------------------------------------------------------------------------------

    @property
    def admin(self) -> bool:
        """Whether the caller is an administrator."""
        return is_admin(self.user)

    def may(self, right: Right, target: Target) -> bool:
        """Return whether the caller has a right."""
        return allowed(self.cloud.world, self.user, right, target)

    def need(self, right: Right, target: Target) -> None:
        """Refuse the call if the caller lacks a right."""
        if self.may(right, target):
            return
        what = target.kind.name or ""
        where = f"{what} [{target.id}]" if target.id >= 0 else what
        raise OneRefusal(
            AUTHORIZATION,
            f"User [{self.user.id}] : Not authorized to perform {right.name} {where}.",
        )

    # -- templates ----------------------------------------------------------------------------

    @staticmethod
    def parse(text: str, before: str = "") -> Template:
        """Parse a template that the caller sent; refuse the call if it is invalid."""
        try:
            return template_text.parse(text)
        except template_text.ParseError as error:
            raise OneRefusal(INTERNAL, f"{before}{error}") from None


def mark(call: MethodCall, record: HistoryRecord) -> None:
    """Write the caller of the action that ends a history record."""
    record.uid, record.gid = call.user.id, call.user.gid
    record.request_id = call.cloud.requests


_FORBIDDEN = frozenset("&|:\\\";/'#{}$<>")
_NAME_BYTES = 128


def name_fault(name: str, forbidden: frozenset[str] = frozenset()) -> str:
    """Return oned's error text for an invalid name; empty for a valid one."""
    if not name:
        return "Invalid NAME, it cannot be empty"
    for letter in name:
        if letter in _FORBIDDEN or letter in forbidden:
            return f"Invalid NAME, char '{letter}' is not allowed"
    too_long = len(name.encode()) > _NAME_BYTES
    return f"Invalid NAME, max length is {_NAME_BYTES} chars" if too_long else ""


def check_name(name: str, code: int = INTERNAL) -> None:
    """Refuse a name that oned refuses."""
    fault = name_fault(name)
    if fault:
        raise OneRefusal(code, fault)
