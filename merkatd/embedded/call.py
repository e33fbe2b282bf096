"""What a call is: its caller, its refusals in oned's words, and the register of all methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from merkatd.embedded import template
from merkatd.embedded.access import Kind, Right, Target, allowed, is_admin

if TYPE_CHECKING:
    from collections.abc import Callable

    from merkatd.embedded.cloud import Cloud
    from merkatd.embedded.pages import Pool
    from merkatd.embedded.records import (
        Cluster,
        Datastore,
        Group,
        History,
        Host,
        Image,
        Network,
        User,
        Vm,
        VmGroup,
        VmTemplate,
    )
    from merkatd.embedded.template import Template
    from merkatd.embedded.world import Record, Table

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain]"
"""What XML-RPC carries."""
Answer: TypeAlias = "Plain | Pool"
Function: TypeAlias = "Callable[..., Answer]"

T = TypeVar("T", bound="Record")

AUTHENTICATION = 256
AUTHORIZATION = 512
NO_EXISTS = 1024
ACTION = 2048
RPC_API = 4096
INTERNAL = 8192
ALLOCATE = 16384

UNKNOWN_METHOD = -506
NO_CALL = -503
WRONG_TYPE = -501

_LABELS = {
    Kind.VM: "virtual machine",
    Kind.HOST: "host",
    Kind.IMAGE: "image",
    Kind.NET: "virtual network",
    Kind.USER: "user",
    Kind.GROUP: "group",
    Kind.ACL: "ACL",
    Kind.DATASTORE: "datastore",
    Kind.CLUSTER: "cluster",
    Kind.VMGROUP: "vm group",
    Kind.TEMPLATE: "virtual machine template",
}


class Refusal(Exception):  # noqa: N818 - the protocol calls it neither error nor exception
    """A call that oned answers with failure."""

    def __init__(self, code: int, text: str, oid: int = -1) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.oid = oid


class RpcFault(Exception):  # noqa: N818 - XML-RPC's own word
    """A call that XML-RPC itself refuses."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Method:
    """A method: which types it takes, and the function that does it."""

    name: str
    required: str
    optional: str
    function: Function


METHODS: dict[str, Method] = {}


def method(name: str, types: str = "") -> Callable[[Function], Function]:
    """Register a function; types are `i`, `s`, `b`, `a` (any), the optional ones after `?`."""
    required, _, optional = types.partition("?")

    def register(function: Function) -> Function:
        METHODS[name] = Method(name, required, optional, function)
        return function

    return register


_TYPES: dict[str, Callable[[Any], bool]] = {
    "i": lambda value: type(value) is int and -(2**31) <= value < 2**31,
    "s": lambda value: type(value) is str,
    "b": lambda value: type(value) is bool,
    "a": lambda _value: True,
}
_TYPE_NAMES = {"i": "integer", "s": "a string", "b": "boolean"}


def check_types(found: Method, values: list[Any]) -> None:
    """Raise XML-RPC's own fault where arguments are missing or of the wrong type."""
    if len(values) < len(found.required):
        raise RpcFault(WRONG_TYPE, "Not enough parameters")
    for kind, value in zip(found.required + found.optional, values, strict=False):
        if not _TYPES[kind](value):
            raise RpcFault(
                WRONG_TYPE, f"Parameter that is supposed to be {_TYPE_NAMES[kind]} is not"
            )


_LOCKED = {
    1: frozenset({Right.MANAGE, Right.ADMIN}),
    2: frozenset({Right.MANAGE, Right.ADMIN}),
    3: frozenset({Right.ADMIN}),
}
"""By level of a lock, what it forbids. To look is always allowed."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call by one user."""

    cloud: Cloud
    user: User
    method: str

    # -- objects ------------------------------------------------------------------------------

    def find(self, table: Table[T], kind: Kind, oid: int) -> T:
        """An object that must exist."""
        row = table.get(oid)
        if row is None:
            raise Refusal(NO_EXISTS, f"Error getting {_LABELS[kind]} [{oid}].", oid)
        return row

    def vm(self, oid: int, right: Right) -> Vm:
        """A VM to which the caller has a right; a lock holds for administrators too."""
        vm = self.find(self.cloud.world.vms, Kind.VM, oid)
        if vm.lock is not None and right in _LOCKED[vm.lock.level]:
            why = "VM is locked." if self.admin else f"Not authorized to perform {right.name} VM"
            raise Refusal(AUTHORIZATION, f"User [{self.user.id}] : {why} [{oid}].")
        self.need(right, vm_target(vm))
        return vm

    def host(self, oid: int) -> Host:
        """A host, whatever the caller's rights."""
        return self.find(self.cloud.world.hosts, Kind.HOST, oid)

    # -- rights -------------------------------------------------------------------------------

    @property
    def admin(self) -> bool:
        """Whether the caller may do everything."""
        return is_admin(self.user)

    def may(self, right: Right, target: Target) -> bool:
        """Whether the caller has a right."""
        return allowed(self.cloud.world, self.user, right, target)

    def need(self, right: Right, target: Target) -> None:
        """Refuse the call if the caller hasn't a right."""
        if self.may(right, target):
            return
        what = target.kind.name or ""
        where = f"{what} [{target.id}]" if target.id >= 0 else what
        raise Refusal(
            AUTHORIZATION,
            f"User [{self.user.id}] : Not authorized to perform {right.name} {where}.",
        )

    # -- templates ----------------------------------------------------------------------------

    @staticmethod
    def parse(text: str, before: str = "") -> Template:
        """A template that a caller sent."""
        try:
            return template.parse(text)
        except template.ParseError as error:
            raise Refusal(INTERNAL, f"{before}{error}") from None


def mark(call: Call, record: History) -> None:
    """Note on a history record who asked for what ends it."""
    record.uid, record.gid = call.user.id, call.user.gid
    record.request_id = call.cloud.requests


_FORBIDDEN = frozenset("&|:\\\";/'#{}$<>")
_NAME_BYTES = 128


def name_fault(name: str, forbidden: frozenset[str] = frozenset()) -> str:
    """What is wrong with a name, in oned's words; nothing if it is a good one."""
    if not name:
        return "Invalid NAME, it cannot be empty"
    for letter in name:
        if letter in _FORBIDDEN or letter in forbidden:
            return f"Invalid NAME, char '{letter}' is not allowed"
    too_long = len(name.encode()) > _NAME_BYTES
    return f"Invalid NAME, max length is {_NAME_BYTES} chars" if too_long else ""


def check_name(name: str, code: int = INTERNAL) -> None:
    """Refuse what oned takes for no name."""
    fault = name_fault(name)
    if fault:
        raise Refusal(code, fault)


def vm_target(vm: Vm) -> Target:
    """A VM as far as rights go."""
    return Target(Kind.VM, vm.id, vm.uid, vm.gid, permissions=vm.permissions)


def host_target(host: Host) -> Target:
    """A host as far as rights go; it belongs to oneadmin."""
    return Target(Kind.HOST, host.id, 0, 0, (host.cluster,))


def datastore_target(store: Datastore) -> Target:
    """A datastore as far as rights go."""
    return Target(
        Kind.DATASTORE, store.id, store.uid, store.gid, tuple(store.clusters), store.permissions
    )


def image_target(image: Image) -> Target:
    """An image as far as rights go."""
    return Target(Kind.IMAGE, image.id, image.uid, image.gid, permissions=image.permissions)


def network_target(network: Network) -> Target:
    """A virtual network as far as rights go."""
    clusters = tuple(network.clusters)
    return Target(Kind.NET, network.id, network.uid, network.gid, clusters, network.permissions)


def vm_group_target(group: VmGroup) -> Target:
    """A VM group as far as rights go."""
    return Target(Kind.VMGROUP, group.id, group.uid, group.gid, permissions=group.permissions)


def template_target(row: VmTemplate) -> Target:
    """A VM template as far as rights go."""
    return Target(Kind.TEMPLATE, row.id, row.uid, row.gid, permissions=row.permissions)


def user_target(user: User) -> Target:
    """A user as far as rights go."""
    return Target(Kind.USER, user.id, user.id, user.gid)


def group_target(group: Group) -> Target:
    """A group as far as rights go."""
    return Target(Kind.GROUP, group.id, -1, group.id)


def cluster_target(cluster: Cluster) -> Target:
    """A cluster as far as rights go."""
    return Target(Kind.CLUSTER, cluster.id)
