"""The embedded cloud: its creation, its calls and its storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

from merkatd.embedded.machines.faults import FaultKind, Faults, FaultVerdict
from merkatd.embedded.machines.host_failures import HostFailures
from merkatd.embedded.machines.host_simulation import HostSimulation
from merkatd.embedded.machines.lifecycle import Lifecycle
from merkatd.embedded.machines.power_meter import PowerMeter
from merkatd.embedded.machines.usage_samples import Monitoring
from merkatd.embedded.methods.call import METHODS, Answer, MethodCall, OneMethod, Plain, check_types
from merkatd.embedded.methods.cluster_calls import new_cluster, share_datastore
from merkatd.embedded.methods.host_calls import description, new_host
from merkatd.embedded.methods.user_calls import new_user
from merkatd.embedded.model.access import DEFAULT_RULES, authenticate
from merkatd.embedded.model.errors import (
    AUTHENTICATION,
    NO_CALL,
    UNKNOWN_METHOD,
    WRONG_TYPE,
    OneFault,
    OneRefusal,
)
from merkatd.embedded.model.records import FIRST_CLUSTER, AclRule, Datastore, UserGroup, Vm
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.template_text import Template
from merkatd.embedded.model.vm_states import Lcm
from merkatd.embedded.model.world import World
from merkatd.embedded.render.render_cache import RenderCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from merkatd.base.clock import Clock
    from merkatd.embedded.model.records import Host
    from merkatd.embedded.model.settings import EmbeddedSettings

__all__ = [
    "CallReply",
    "EmbeddedCloud",
    "HostSize",
]


_log = Logger()
_LAST = "\uffff"
"""The highest character that oned's XML-RPC accepts."""


@dataclass(frozen=True, slots=True)
class CallReply:
    """The reply to a call, with the faults of its delivery."""

    success: bool
    value: Answer
    code: int = 0
    oid: int = -1
    verdict: FaultVerdict = field(default_factory=FaultVerdict)

    def plain(self) -> list[Plain]:
        """Return the reply as an XML-RPC array."""
        value = (
            self.value
            if isinstance(self.value, (str, int, float, list, dict))
            else (self.value.text())
        )
        if self.verdict.fate is FaultKind.TRUNCATE and isinstance(value, str):
            value = value[: len(value) * 2 // 3]
        if self.success:
            return [True, value, 0]
        return [False, value, self.code, self.oid, -1]


class Store(Protocol):
    """The storage of a cloud."""

    def commit(self) -> None:
        """Store all changes."""

    def close(self) -> None:
        """Close the storage."""


class EmbeddedCloud:
    """The whole cloud. Users reach it by `call` only; the other methods are for tests."""

    def __init__(
        self,
        clock: Clock,
        rng: np.random.Generator,
        settings: EmbeddedSettings | None = None,
        host_size: HostSize | None = None,
    ) -> None:
        world_rng, fault_rng = rng.spawn(2)
        self.world = World(clock, world_rng, settings)
        self.host_size = host_size or HostSize()
        self.lifecycle = Lifecycle(self.world)
        self.guests = HostSimulation(self.world, self.lifecycle)
        self.power = PowerMeter(self.world, self.host_size)
        self.guests.divided = self.power.load
        self.failures = HostFailures(
            self.world, self.lifecycle, self.guests, self.power, self.world.settings.host_start_s
        )
        self.monitoring = Monitoring(self.world, self.guests, self.power)
        self.cache = RenderCache(self.world)
        self.faults = Faults(fault_rng)
        self.store: Store | None = None
        self.requests = 0
        self.lifecycle.fails = self._fails
        self.world.agenda.after_turn = self.commit

    # -- creation -----------------------------------------------------------------------------

    def found(self, password: str) -> None:
        """Create the first objects: oneadmin, two groups, a cluster, three datastores."""
        world = self.world
        for oid, name in enumerate(("oneadmin", "users")):
            world.groups.add(UserGroup(oid, name))
            world.changed("group", oid)
        new_user(world, "oneadmin", password, [0])
        new_user(world, "serveradmin", world.uuid(), [0]).enabled = False
        for oid, (name, kind) in enumerate((("system", 1), ("default", 0), ("files", 2))):
            world.datastores.add(Datastore(oid, name, kind, [], _store_template(kind)))
        default = new_cluster(world, FIRST_CLUSTER)
        for store in world.datastores:
            share_datastore(world, default, store)
        for numbers in DEFAULT_RULES:
            rule = world.rules.add(AclRule(world.rules.next_id, *map(int, numbers)))
            world.changed("acl", rule.id)

    def add_hosts(
        self, number: int, size: HostSize | None = None, cluster: int = 0, prefix: str = "host"
    ) -> list[Host]:
        """Add hosts of one size, and describe their places and their power in their templates."""
        size = size or self.host_size
        home = self.world.clusters.rows[cluster]
        hosts = []
        for _ in range(number):
            name = f"{prefix}{self.world.hosts.next_id:03d}"
            host = new_host(self.world, name, home, size.cpu, size.memory_mib)
            host.template = host.template.plus(description(host, home, size))
            self.world.changed("host", host.id)
            hosts.append(host)
        return hosts

    # -- calls --------------------------------------------------------------------------------

    def call(self, method: str, arguments: Sequence[object]) -> CallReply:
        """Execute a call; the reply names the faults of its delivery.

        Raise OneFault if the call breaks XML-RPC's own rules. The changes are stored on return.
        """
        function, user_arguments = self._resolve(method, arguments)
        verdict = self.faults.on_call(method, user_arguments)
        if verdict.fate is FaultKind.HANG:
            return CallReply(success=False, value="", verdict=verdict)
        self.requests += 1
        try:
            value = self._perform(function, str(arguments[0]), user_arguments, verdict)
        except OneRefusal as refusal:
            text = f"[{method}] {refusal.text}"
            return CallReply(
                success=False, value=text, code=refusal.code, oid=refusal.oid, verdict=verdict
            )
        self.commit()
        return CallReply(success=True, value=value, verdict=verdict)

    def _resolve(self, method: str, arguments: Sequence[object]) -> tuple[OneMethod, list[object]]:
        function = METHODS.get(method)
        if function is None or method in self.world.settings.missing_methods:
            raise OneFault(UNKNOWN_METHOD, f"Method '{method}' not defined")
        if not arguments or type(arguments[0]) is not str:
            raise OneFault(
                WRONG_TYPE, f"The first parameter of {method} must be the session string"
            )
        texts = (value for value in arguments if isinstance(value, str) and not value.isascii())
        if any(max(text) > _LAST for text in texts):
            raise OneFault(NO_CALL, "Call XML not a proper XML-RPC call.")
        values = list(arguments[1:])
        check_types(function, values)
        return function, values[: len(function.required) + len(function.optional)]

    def _perform(
        self, function: OneMethod, session: str, values: list[object], verdict: FaultVerdict
    ) -> Answer:
        if verdict.refusal is not None:
            raise OneRefusal(verdict.refusal.code, verdict.refusal.text)
        user = authenticate(self.world, session)
        if user is None:
            raise OneRefusal(AUTHENTICATION, "User couldn't be authenticated, aborting call.")
        return function.function(MethodCall(self, user, function.name), *values)

    def commit(self) -> None:
        """Divide changed hosts anew, and store all changes."""
        self.guests.settle()
        if self.store is not None:
            self.store.commit()

    def close(self) -> None:
        """Stop the clock, and store the last changes."""
        self.commit()
        self.world.agenda.stop()
        if self.store is not None:
            self.store.close()

    # -- hosts that fail ----------------------------------------------------------------------

    def host_down(self, host_id: int, *, crash: bool = True) -> None:
        """Let a host fail: it dies with its guests, or only its monitoring is lost."""
        self.failures.host_down(self.world.hosts.rows[host_id], crash=crash)

    def host_up(self, host_id: int) -> None:
        """Let a host return; guests that died with it are found powered off."""
        self.failures.host_up(self.world.hosts.rows[host_id])

    def _fails(self, vm: Vm, lcm: Lcm) -> bool:
        if lcm is Lcm.MIGRATE and not self.guests.can_arrive(vm):
            _log.info(
                "Live migration of VM {vm} fails: the target lacks its pinned cores", vm=vm.id
            )
            return True
        return self.faults.on_step(vm, lcm)


def _store_template(kind: int) -> Template:
    texts = {
        "ALLOW_ORPHANS": "NO",
        "RESTRICTED_DIRS": "/",
        "SAFE_DIRS": "/var/tmp",  # noqa: S108 - as oned shows it; nothing is written there
        "TM_MAD": "dummy",
        "TYPE": ("IMAGE_DS", "SYSTEM_DS", "FILE_DS")[kind],
    }
    if kind == 1:
        texts |= {"DISK_TYPE": "FILE", "DS_MIGRATE": "YES", "SHARED": "YES"}
    else:
        texts |= {"CLONE_TARGET": "SYSTEM", "DS_MAD": "dummy", "LN_TARGET": "NONE"}
    if kind == 0:
        texts["DISK_TYPE"] = "FILE"
    return Template.of(texts.items())
