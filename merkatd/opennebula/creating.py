"""New VMs, each made once however often it is asked for: its key is looked for first."""

from merkatd.cluster import Create
from merkatd.opennebula.client import Client
from merkatd.opennebula.elements import Element, children, ids, object_id, one, text
from merkatd.opennebula.guarding import objection, variable
from merkatd.opennebula.observing import Shown
from merkatd.opennebula.owners import NoTokensError, Owner, Owners
from merkatd.opennebula.reading import VmReader
from merkatd.opennebula.vm_pool import KEY, VmRow, read_vm
from merkatd.scheduler.base.ports import Answer, Reply
from merkatd.syntax import ParseError, Template, parse

_OWN = -1
_ADMINISTRATORS = 0


class GuardedError(Exception):
    """A VM that the daemon does not make with its own rights; the message says why."""


class NewVms:
    """The VMs that are newer than an observation, by key: read once, however many are made.

    VMs made since then were made here, and are known. An attempt that failed may have made one all
    the same: then they are read again.
    """

    def __init__(self, client: Client, reader: VmReader) -> None:
        """Read all with this one."""
        self._client = client
        self._reader = reader
        self._since: Shown | None = None
        self._ids: dict[str, int] | None = None

    async def with_key(self, shown: Shown | None, key: str) -> VmRow | None:
        """The oldest VM that has the key, also one that is done.

        Ids ascend: what the observation did not show with its keys is newer than all it showed.
        """
        vm = None if shown is None else shown.keys.get(key)
        if vm is None:
            vm = (await self._newer(shown)).get(key)
        there = None if vm is None else read_vm(await self._client.vm(vm))
        return there if there is not None and there.attributes.get(KEY) == key else None

    async def _newer(self, shown: Shown | None) -> dict[str, int]:
        if self._ids is None or self._since is not shown:
            vms = await self._reader.newer(-1 if shown is None else shown.newest)
            found = {vm.attributes.get(KEY, ""): vm.id for vm in _newest_first(vms)}
            # Others may have read them, and made some, in the meantime.
            known = self._ids if self._since is shown else None
            self._since, self._ids = shown, found | (known or {})
        return self._ids

    def made(self, key: str, vm: int) -> None:
        """This VM was made with this key."""
        if self._ids is not None:
            self._ids[key] = vm

    def forget(self) -> None:
        """Read them again before the next is made."""
        self._ids = None


def _newest_first(vms: list[VmRow]) -> list[VmRow]:
    return sorted(vms, key=lambda vm: vm.id, reverse=True)


async def create(
    client: Client, owners: Owners, new: NewVms, shown: Shown | None, step: Create
) -> Reply:
    """Make the VM, or finish what an earlier attempt has begun."""
    try:
        reply = await _create(client, owners, await new.with_key(shown, step.key), step)
    except Exception:
        new.forget()
        raise
    if reply.vm is not None:
        new.made(step.key, reply.vm)
    return reply


async def _create(client: Client, owners: Owners, found: VmRow | None, step: Create) -> Reply:
    owner = _owner(one(await client.user(step.owner), "USER"))
    if found is not None:
        if found.owner != owner.id:
            await client.chown(found.id, owner.id, owner.group)
        return Reply(Answer.ACCEPTED, "it was there already", found.id)
    own = object_id(children(one(await client.user(_OWN), "USER")))
    template = with_key(step.template, step.key)
    if owner.id == own:
        return Reply(Answer.ACCEPTED, vm=await client.allocate(template))
    try:
        return Reply(Answer.ACCEPTED, vm=await owners.allocate(owner, template))
    except NoTokensError as error:
        why = str(error)
    try:
        return Reply(Answer.ACCEPTED, vm=await _made_by_us(client, owner, template))
    except GuardedError as error:
        return Reply(Answer.REFUSED, f"{error}; the daemon has no login of the owner: {why}")


def _owner(user: Element) -> Owner:
    known = children(user)
    # Not every element GROUPS: a user's own template can forge another one.
    groups = ids(known.get("GROUPS", ()))
    uid = object_id(known)
    admin = uid == 0 or _ADMINISTRATORS in groups
    return Owner(uid, text(known, "NAME"), object_id(known, "GID"), admin)


async def _made_by_us(client: Client, owner: Owner, text_: str) -> int:
    """Make a VM with the daemon's own rights and give it to its owner. Raise GuardedError."""
    if not owner.admin:
        try:
            _guard(parse(text_), await client.restricted())
        except ParseError as error:
            raise GuardedError(str(error)) from None
    vm = await client.allocate(text_)
    await client.chown(vm, owner.id, owner.group)
    return vm


def _guard(template: Template, restricted: list[str]) -> None:
    """Refuse what OpenNebula would refuse the owner. References were checked when it was stored."""
    why = objection(template, restricted)
    if why is not None:
        raise GuardedError(why)
    replaced = variable(template)
    if replaced is not None:
        raise GuardedError(f"{replaced!r} would be replaced by what the daemon may see")


def with_key(template: str, key: str) -> str:
    """The template, in either of OpenNebula's forms, with the key in it."""
    if template.lstrip().startswith("<"):
        head, close, tail = template.rpartition("</")
        return f"{head}<{KEY}>{key}</{KEY}>{close}{tail}"
    return f'{template}\n{KEY}="{key}"\n'
