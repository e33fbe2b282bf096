"""A monitor's SSH access to the VMs of a virtual cluster: addresses, host keys, running VMs.

The daemon passes the SSH settings of its configuration in an environment variable. A template's
monitor may replace some for its own VMs (`address`, `user`, `port`).
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controllers.controller import Hand
from controllers.monitors.ssh_pool import Heard, SshLimits, SshPool, SshTarget, key_of
from merkatd.base.parameter_bounds import whole
from merkatd.protocol.bus_messages import Latest, LatestRequest
from merkatd.protocol.controller_kinds import HOME, SSH
from merkatd.protocol.guest_keys import GuestKeys, guest_keys
from merkatd.protocol.monitor_terms import check_address
from merkatd.protocol.platform_messages import VmNow


@dataclass(frozen=True, slots=True, kw_only=True)
class SshReach:
    """The SSH settings for reaching VMs."""

    address: str
    """The address, in which `{vm}` stands for the VM's id."""
    allowed: tuple[str, ...] = ()
    """Patterns of other addresses that a template may name."""
    user: str = "root"
    port: int = 22
    limits: SshLimits = field(default_factory=SshLimits)

    @classmethod
    def read(cls, text: str) -> "SshReach":
        """Parse the settings that the daemon wrote as JSON."""
        values = json.loads(text)
        return cls(
            **{
                **values,
                "allowed": tuple(values["allowed"]),
                "limits": SshLimits(**values["limits"]),
            }
        )

    def but(self, parameters: Mapping[str, Any]) -> "SshReach":
        """Return the settings changed by a template. Raise ValueError for a forbidden address."""
        address = str(parameters.get("address", self.address))
        check_address(address, (self.address, *self.allowed))
        return SshReach(
            address=address,
            allowed=self.allowed,
            user=str(parameters.get("user", self.user)),
            port=whole(parameters, "port") if "port" in parameters else self.port,
            limits=self.limits,
        )

    def place(self, vm: VmNow, keys: GuestKeys) -> SshTarget:
        """Return the address of a VM and its expected host key."""
        return SshTarget(
            address=self.address.replace("{vm}", str(vm.vm)),
            port=self.port,
            user=self.user,
            host_key=keys.host_key(vm.key),
        )


class GuestAccess:
    """The SSH access to the VMs of one cluster."""

    def __init__(self, reach: SshReach, keys: GuestKeys, hand: Hand, cluster: str) -> None:
        self._reach = reach
        self._keys = keys
        self._hand = hand
        self._cluster = cluster
        self._pool = SshPool(key_of(keys.ours), reach.limits)

    async def there(self) -> Mapping[int, VmNow] | None:
        """Return all VMs of the cluster in the last period; None before the first period."""
        return await vms_of_cluster(self._hand, self._cluster)

    async def running(self) -> Mapping[int, VmNow]:
        """Return the VMs that ran in the last period and are not leaving."""
        return running(await self.there() or {})

    async def ask(
        self, vms: Mapping[int, VmNow], command: Callable[[int], str]
    ) -> Mapping[int, Heard]:
        """Run a command on each VM, and return the answers; close connections to other VMs."""
        self._pool.forget(tuple(vms))
        places = {vm: self._reach.place(now, self._keys) for vm, now in vms.items()}
        return await self._pool.ask(places, command)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


async def vms_of_cluster(hand: Hand, cluster: str) -> Mapping[int, VmNow] | None:
    """Return a cluster's VMs in the last period; None before the first period."""
    latest = await hand.ask(LatestRequest())
    if not isinstance(latest, Latest) or latest.standing is None:
        return None
    return {vm.vm: vm for vm in latest.standing.vms if vm.cluster == cluster}


def running(vms: Mapping[int, VmNow]) -> Mapping[int, VmNow]:
    """Return the VMs that run and are not leaving."""
    return {vm: now for vm, now in vms.items() if now.state == "running" and not now.leaving}


def home() -> Path:
    """Return the daemon's state directory, from the process's environment."""
    return Path(os.environ[HOME])


def ssh_settings(parameters: Mapping[str, Any]) -> SshReach | None:
    """Return the SSH settings; None if neither configuration nor template names an address."""
    if SSH not in os.environ:
        return None
    reach = SshReach.read(os.environ[SSH]).but(parameters)
    return reach if reach.address else None


def site_keys() -> GuestKeys:
    """Return the site's keys."""
    return guest_keys(home())
