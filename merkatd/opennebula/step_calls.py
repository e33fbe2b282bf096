"""Steps as calls of oned: sent only in a suitable VM state; VMs are created once only."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from merkatd.cluster import Create, Deploy, Migrate, Resume, Step, Stop, Suspend, Terminate, VmState
from merkatd.opennebula.current_state import UNREAD, VmCheck, VmChecks, is_on
from merkatd.opennebula.observation_builder import Destination, LatestPools
from merkatd.opennebula.owner_text_guard import variable, why_refused
from merkatd.opennebula.owner_tokens import NoTokensError, Owner, Owners, owner_of
from merkatd.opennebula.pools.one_states import (
    ACTIVE,
    CLONING,
    DONE,
    PENDING,
    POWEROFF,
    RUNNING,
    STOPPED,
    SUSPENDED,
    UNDEPLOYED,
    state_meaning,
)
from merkatd.opennebula.pools.pool_reader import VmReader
from merkatd.opennebula.pools.vm_pool import KEY, VmRow, read_vm
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import OneForbiddenError, OneMissingError
from merkatd.scheduler.base.ports import OwnedKey, ReplyKind, StepReply
from merkatd.syntax import ParseError, Template, parse

_OWN = -1
_EXISTS = "the VM exists already"


# Note [Created VMs without their key]
#
# A new VM has its creation key among its owner's texts. An observation finds it by that key, and
# the platform or group learns its id. Some texts make a VM unreadable: an owner's GRAPHICS with a
# part CPU looks like a forged CPU. Then the key is not seen, and the VM was created anew in each
# period, without end. An owner can also delete the key. So the adapter keeps the id that OpenNebula
# answered to the creation: a VM that exists counts as created, whatever its texts say. After a
# restart of the daemon such a VM may be created once more.
#
# Note [Copied keys]
#
# A user can read the key of its new VM, and can write it into each VM that it may manage, also into
# older VMs of other users. The daemon once gave such a VM to the owner of the new VM, who got its
# disks or had to pay for it. So a key counts only in a VM of the owner for whom the VM is created,
# or in a VM of the daemon's own account, which creates VMs if OpenNebula gives it no token.


class GuardedError(Exception):
    """A VM that the daemon refuses to create with its own rights; the message says why."""


class NewVms:
    """The VMs by key that are newer than an observation, read once for all creations.

    VMs created since then were created by the daemon, and are known. A failed attempt may have
    created a VM all the same: after it, the VMs are read again.
    """

    def __init__(self, client: Client, reader: VmReader) -> None:
        """Read new VMs with `reader`."""
        self._client = client
        self._reader = reader
        self._since: LatestPools | None = None
        self._ids: dict[OwnedKey, int] | None = None
        self._answered: dict[OwnedKey, int] = {}
        """The created VMs by key and owner, as OpenNebula answered
        (Note [Created VMs without their key])."""

    async def with_key(
        self, shown: LatestPools | None, key: str, owners: Sequence[int]
    ) -> VmRow | None:
        """Return the oldest VM with this key of the first of these owners that has one.

        The VM may be DONE. Return None if no owner has one. Ids ascend: a VM whose key is not in
        the observation is newer than all its VMs.
        """
        for owner in owners:
            vm = None if shown is None else shown.keys.get((key, owner))
            if vm is None:
                vm = (await self._newer(shown)).get((key, owner))
            there = None if vm is None else read_vm(await self._client.vm(vm))
            if there is None or there.attributes.get(KEY) != key:
                continue
            if there.owner in owners:  # the VM may have another owner since the observation
                return there
        return None

    async def _newer(self, shown: LatestPools | None) -> dict[OwnedKey, int]:
        if self._ids is None or self._since is not shown:
            vms = await self._reader.newer(-1 if shown is None else shown.newest)
            created = {(vm.attributes.get(KEY, ""), vm.owner): vm.id for vm in _newest_first(vms)}
            # Another creation may have read the VMs, and created some, in the meantime.
            known = self._ids if self._since is shown else None
            self._since, self._ids = shown, created | (known or {})
        return self._ids

    def made(self, key: str, owner: int, vm: int) -> None:
        """Record that a VM was created with this key for this owner."""
        self._answered[key, owner] = vm
        if self._ids is not None:
            self._ids[key, owner] = vm

    def answered(self) -> dict[OwnedKey, int]:
        """Return the created VMs by key and owner that no observation has shown with their key."""
        return dict(self._answered)

    def observed(self, shown: LatestPools) -> None:
        """Forget created VMs that an observation shows with their key, and those that are gone."""
        self._answered = {
            key: vm
            for key, vm in self._answered.items()
            if key not in shown.written_keys
            and (vm in shown.vm_rows or vm in shown.ailing or vm > shown.newest)
        }

    def forget(self) -> None:
        """Read the new VMs again before the next creation."""
        self._ids = None


def _newest_first(vms: list[VmRow]) -> list[VmRow]:
    return sorted(vms, key=lambda vm: vm.id, reverse=True)


async def create(
    client: Client, owners: Owners, new: NewVms, shown: LatestPools | None, step: Create
) -> StepReply:
    """Create the VM, or finish the creation that an earlier attempt began."""
    try:
        own = owner_of(await client.user(_OWN)).id
        # See Note [Copied keys].
        existing = await new.with_key(shown, step.key, list(dict.fromkeys((step.owner, own))))
        owner = await owners.read(step.owner, shown)
        reply = await _create(client, owners, existing, owner, own, step)
    except Exception:
        new.forget()
        raise
    if reply.vm is not None:
        new.made(step.key, step.owner, reply.vm)
    return reply


async def _create(
    client: Client, owners: Owners, existing: VmRow | None, owner: Owner, own: int, step: Create
) -> StepReply:
    """Create the VM; an `existing` VM belongs to the owner, or to the daemon's `own` account."""
    if existing is not None and existing.owner == owner.id:
        return StepReply(ReplyKind.ACCEPTED, _EXISTS, existing.id)
    if existing is not None and existing.state != DONE:
        await _hand_over(client, existing.id, owner)
        return StepReply(ReplyKind.ACCEPTED, _EXISTS, existing.id)
    template = with_key(step.template, step.key)
    if owner.id == own:
        return StepReply(ReplyKind.ACCEPTED, vm=await client.allocate(template))
    try:
        return StepReply(ReplyKind.ACCEPTED, vm=await owners.allocate(owner, template))
    except NoTokensError as error:
        why = str(error)
    try:
        return StepReply(ReplyKind.ACCEPTED, vm=await _made_by_us(client, owner, template))
    except GuardedError as error:
        return StepReply(ReplyKind.REFUSED, f"{error}; no login token for the owner: {why}")


async def _made_by_us(client: Client, owner: Owner, text_: str) -> int:
    """Create a VM with the daemon's own rights and give it to its owner. Raise GuardedError."""
    if not owner.admin:
        try:
            _guard(parse(text_), await client.restricted())
        except ParseError as error:
            raise GuardedError(str(error)) from None
    vm = await client.allocate(text_)
    await _hand_over(client, vm, owner)
    return vm


async def _hand_over(client: Client, vm: int, owner: Owner) -> None:
    """Give a VM of the daemon's own account to its owner. If OpenNebula refuses that, end the VM.

    OpenNebula refuses it beyond the owner's quota. The VM would then run in the daemon's name, and
    its owner would pay nothing for it. After any other error, the next attempt finds the VM.
    """
    try:
        await client.chown(vm, owner.id, owner.group)
    except (OneForbiddenError, OneMissingError):
        await client.action("terminate-hard", vm)
        raise


def _guard(template: Template, restricted: list[str]) -> None:
    """Raise GuardedError if OpenNebula would refuse the owner this VM.

    References were checked when the template was stored.
    """
    why = why_refused(template, restricted)
    if why is not None:
        raise GuardedError(why)
    replaced = variable(template)
    if replaced is not None:
        raise GuardedError(
            f"the variable {replaced!r} is not accepted: it would show data of the daemon's account"
        )


def with_key(template: str, key: str) -> str:
    """Return a template with the key added; it may be XML or in OpenNebula's own syntax."""
    if template.lstrip().startswith("<"):
        head, close, tail = template.rpartition("</")
        return f"{head}<{KEY}>{key}</{KEY}>{close}{tail}"
    return f'{template}\n{KEY}="{key}"\n'


async def send(client: Client, glances: VmChecks, step: Step, to: Destination) -> StepReply:
    """Read the VM's state, and send the step if the state allows it."""
    vm = await glances.at(step.vm)
    if not (_takes_move(step, vm) if isinstance(step, Migrate) else _TAKES[step.kind](vm)):
        words = f"it is {state_meaning(vm.state, vm.life).words}"
        return StepReply(ReplyKind.LOOK_AGAIN, words, changed=vm.state != ACTIVE)
    if isinstance(step, Migrate):
        there = vm.host == step.source
        if vm.host == UNREAD:
            there = await is_on(client, step.vm, step.source)
        if not there:
            place = "another host" if vm.host == UNREAD else f"host {vm.host}"
            return StepReply(ReplyKind.LOOK_AGAIN, f"it is on {place}, not on host {step.source}")
    try:
        await _ask(client, step, to, vm)
    except OneForbiddenError as error:
        if step.kind not in _UNLOCKS or "locked" not in error.text:
            raise
        await client.call("one.vm.unlock", step.vm, about=f"VM {step.vm}")
        await _ask(client, step, to, vm)
    return StepReply(ReplyKind.ACCEPTED)


async def _ask(client: Client, step: Step, to: Destination, vm: VmCheck) -> None:
    if isinstance(step, Stop) and vm.state == POWEROFF:
        # A VM in POWEROFF has no memory to save: oned's action for it is undeploy.
        await client.action("undeploy", step.vm)
    else:
        await _ASK[step.kind](client, step, to)


def sendable(step: Step) -> bool:
    """Return whether the step is a call on an existing VM."""
    return step.kind in _ASK


def _runs(vm: VmCheck) -> bool:
    return (vm.state, vm.life) == RUNNING


def _takes_move(step: Migrate, vm: VmCheck) -> bool:
    return _runs(vm) or (not step.live and vm.state in {SUSPENDED, POWEROFF})


def _waits(vm: VmCheck) -> bool:
    return (vm.state, vm.life) == PENDING


def _resumes(vm: VmCheck) -> bool:
    """Return whether the VM can be resumed; a stopped or undeployed VM becomes pending.

    oned would also resume an UNKNOWN VM by starting it anew, but its guest may still be running.
    """
    return vm.state in {SUSPENDED, POWEROFF, STOPPED, UNDEPLOYED}


def _stops(vm: VmCheck) -> bool:
    return _runs(vm) or vm.state in {SUSPENDED, POWEROFF}


def _ends(vm: VmCheck) -> bool:
    return (
        vm.state not in {DONE, *CLONING}
        and state_meaning(vm.state, vm.life).state is not VmState.BUSY
    )


def _nics(to: Destination) -> str:
    """Return the template lines that a deployment adds: the networks of automatic NICs."""
    return "".join(
        f'NIC=[NIC_ID="{nic}",NETWORK_MODE="auto",NETWORK_ID="{network}"]\n'
        for nic, network in to.networks
    )


_TAKES: Mapping[str, Callable[[VmCheck], bool]] = MappingProxyType(
    {
        Deploy.kind: _waits,
        Suspend.kind: _runs,
        Resume.kind: _resumes,
        Stop.kind: _stops,
        Terminate.kind: _ends,
    }
)
_UNLOCKS = frozenset({Suspend.kind, Stop.kind, Terminate.kind})
"""Steps for which the daemon unlocks a VM. Otherwise an owner could use a lock to keep an unpaid
VM, or a VM of an ended platform, on a host. Locks bind administrators too, but they can unlock."""
_ASK: Mapping[str, Callable[[Client, Any, Destination], Awaitable[None]]] = MappingProxyType(
    {
        Deploy.kind: lambda client, step, to: client.deploy(
            step.vm, step.host, to.datastore, _nics(to)
        ),
        Migrate.kind: lambda client, step, _: client.migrate(step.vm, step.host, live=step.live),
        Suspend.kind: lambda client, step, _: client.action("suspend", step.vm),
        Resume.kind: lambda client, step, _: client.action("resume", step.vm),
        Stop.kind: lambda client, step, _: client.action("stop", step.vm),
        # The first attempts let the guest shut down cleanly. If it does not, the VM is RUNNING
        # again after the driver's time limit. A later period retries, after several attempts hard.
        Terminate.kind: lambda client, step, _: client.action(
            "terminate-hard" if step.hard else "terminate", step.vm
        ),
    }
)
