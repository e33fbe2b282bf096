"""New VMs, each made once however often it is asked for: its key is looked for first."""

from merkatd.cluster import Create
from merkatd.opennebula.client import Client
from merkatd.opennebula.elements import Element, children, ids, one, text, whole
from merkatd.opennebula.guarding import objection, variable
from merkatd.opennebula.observing import Shown
from merkatd.opennebula.owners import NoTokensError, Owner, Owners
from merkatd.opennebula.reading import VmReader
from merkatd.opennebula.vm_pool import KEY, VmRow, read_vm
from merkatd.scheduler.ports import Answer, Reply
from merkatd.syntax import ParseError, Template, parse

_OWN = -1
_ADMINISTRATORS = 0


class GuardedError(Exception):
    """A VM that the daemon does not make with its own rights; the message says why."""


async def create(
    client: Client, owners: Owners, reader: VmReader, shown: Shown | None, step: Create
) -> Reply:
    """Make the VM, or finish what an earlier attempt has begun."""
    found = await _with_key(client, reader, shown, step.key)
    owner = _owner(one(await client.user(step.owner), "USER"))
    if found is not None:
        if found.owner != owner.id:
            await client.chown(found.id, owner.id, owner.group)
        return Reply(Answer.ACCEPTED, "it was there already", found.id)
    own = whole(children(one(await client.user(_OWN), "USER")), "ID")
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
    uid = whole(known, "ID")
    admin = uid == 0 or _ADMINISTRATORS in groups
    return Owner(uid, text(known, "NAME"), whole(known, "GID"), admin)


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


async def _with_key(
    client: Client, reader: VmReader, shown: Shown | None, key: str
) -> VmRow | None:
    """The VM that has the key, also one that is done.

    Ids ascend: what the last observation did not show with its keys is newer than all it showed.
    """
    if shown is not None and key in shown.keys:
        vms = [read_vm(await client.vm(shown.keys[key]))]
    else:
        vms = await reader.newer(-1 if shown is None else shown.newest)
    return min((vm for vm in vms if vm.attributes.get(KEY) == key), default=None)


def with_key(template: str, key: str) -> str:
    """The template, in either of OpenNebula's forms, with the key in it."""
    if template.lstrip().startswith("<"):
        head, close, tail = template.rpartition("</")
        return f"{head}<{KEY}>{key}</{KEY}>{close}{tail}"
    return f'{template}\n{KEY}="{key}"\n'
