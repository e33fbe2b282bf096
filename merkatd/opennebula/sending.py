"""Steps on VMs as oned's calls, each only into a state that takes it."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from merkatd.cluster import (
    Deploy,
    Migrate,
    Resume,
    Step,
    Stop,
    Suspend,
    Terminate,
    VmState,
)
from merkatd.opennebula.client import Client
from merkatd.opennebula.errors import ForbiddenError
from merkatd.opennebula.glances import Glance, Glances
from merkatd.opennebula.observing import Destination
from merkatd.opennebula.states import (
    ACTIVE,
    CLONING,
    DONE,
    PENDING,
    POWEROFF,
    RUNNING,
    STOPPED,
    SUSPENDED,
    UNDEPLOYED,
    look,
)
from merkatd.scheduler.base.ports import Answer, Reply


async def send(client: Client, glances: Glances, step: Step, to: Destination) -> Reply:
    """Look at the VM, and ask for the step if it is in the state that the step is for."""
    vm = await glances.at(step.vm)
    if not _TAKES[step.kind](vm):
        words = f"it is {look(vm.state, vm.life).words}"
        return Reply(Answer.LOOK_AGAIN, words, changed=vm.state != ACTIVE)
    if isinstance(step, Migrate) and vm.host != step.source:
        return Reply(Answer.LOOK_AGAIN, f"it is on host {vm.host}, not on host {step.source}")
    try:
        await _ask(client, step, to, vm)
    except ForbiddenError as error:
        if step.kind not in _UNLOCKS or "locked" not in error.text:
            raise
        await client.call("one.vm.unlock", step.vm, about=f"VM {step.vm}")
        await _ask(client, step, to, vm)
    return Reply(Answer.ACCEPTED)


async def _ask(client: Client, step: Step, to: Destination, vm: Glance) -> None:
    if isinstance(step, Stop) and vm.state == POWEROFF:
        # There is no memory to be saved; oned calls that otherwise.
        await client.action("undeploy", step.vm)
    else:
        await _ASK[step.kind](client, step, to)


def sendable(step: Step) -> bool:
    """Whether this is a step on a VM that exists."""
    return step.kind in _ASK


def _runs(vm: Glance) -> bool:
    return (vm.state, vm.life) == RUNNING


def _waits(vm: Glance) -> bool:
    return (vm.state, vm.life) == PENDING


def _resumes(vm: Glance) -> bool:
    """One that is stopped or undeployed becomes pending by it.

    oned would resume one that is UNKNOWN too, by starting it anew; it may be running still.
    """
    return vm.state in {SUSPENDED, POWEROFF, STOPPED, UNDEPLOYED}


def _stops(vm: Glance) -> bool:
    return _runs(vm) or vm.state in {SUSPENDED, POWEROFF}


def _ends(vm: Glance) -> bool:
    return vm.state not in {DONE, *CLONING} and look(vm.state, vm.life).state is not VmState.BUSY


def _nics(to: Destination) -> str:
    """What a deployment adds to the template: the networks of automatic NICs."""
    return "".join(
        f'NIC=[NIC_ID="{nic}",NETWORK_MODE="auto",NETWORK_ID="{network}"]\n'
        for nic, network in to.networks
    )


_TAKES: Mapping[str, Callable[[Glance], bool]] = MappingProxyType(
    {
        Deploy.kind: _waits,
        Migrate.kind: _runs,
        Suspend.kind: _runs,
        Resume.kind: _resumes,
        Stop.kind: _stops,
        Terminate.kind: _ends,
    }
)

_UNLOCKS = frozenset({Suspend.kind, Stop.kind, Terminate.kind})
"""A lock holds for administrators too, but they can take it away. No owner keeps a host's room by a
lock without paying for it, nor the VMs of a platform that has ended."""

_ASK: Mapping[str, Callable[[Client, Any, Destination], Awaitable[None]]] = MappingProxyType(
    {
        Deploy.kind: lambda client, step, to: client.deploy(
            step.vm, step.host, to.datastore, _nics(to)
        ),
        Migrate.kind: lambda client, step, _: client.migrate(step.vm, step.host),
        Suspend.kind: lambda client, step, _: client.action("suspend", step.vm),
        Resume.kind: lambda client, step, _: client.action("resume", step.vm),
        Stop.kind: lambda client, step, _: client.action("stop", step.vm),
        # At first not hard: the guest may end in order. One that does not is RUNNING again
        # after the driver's own time limit, and a later period looks again.
        Terminate.kind: lambda client, step, _: client.action(
            "terminate-hard" if step.hard else "terminate", step.vm
        ),
    }
)
