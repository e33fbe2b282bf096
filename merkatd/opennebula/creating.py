"""New VMs, each made once however often it is asked for: its key is looked for first."""

from functools import partial

from merkatd.cluster import Create
from merkatd.opennebula.client import ANY_STATE, Client
from merkatd.opennebula.elements import children, one, whole
from merkatd.opennebula.observing import Shown
from merkatd.opennebula.reading import read_vms
from merkatd.opennebula.transport import Executor
from merkatd.opennebula.vm_pool import KEY, VmRow, read_page, read_vm
from merkatd.scheduler.ports import Answer, Reply

_OWN = -1
_ROWS = 1000


async def create(client: Client, executor: Executor, shown: Shown | None, step: Create) -> Reply:
    """Make the VM, or finish what an earlier attempt has begun."""
    found = await _with_key(client, executor, shown, step.key)
    user = children(one(await client.user(step.owner), "USER"))
    owner, group = whole(user, "ID"), whole(user, "GID")
    if found is not None:
        if found.owner != owner:
            await client.chown(found.id, owner, group)
        return Reply(Answer.ACCEPTED, "it was there already", found.id)
    own = whole(children(one(await client.user(_OWN), "USER")), "ID")
    vm = await client.allocate(with_key(step.template, step.key))
    if owner != own:
        await client.chown(vm, owner, group)
    return Reply(Answer.ACCEPTED, vm=vm)


async def _with_key(
    client: Client, executor: Executor, shown: Shown | None, key: str
) -> VmRow | None:
    """The VM that has the key, also one that is done.

    Ids ascend: what the last observation did not show with its keys is newer than all it showed.
    """
    if shown is None:
        vms, _ = await read_vms(client, executor, _ROWS, ANY_STATE)
    elif key in shown.keys:
        vms = [read_vm(await client.vm(shown.keys[key]))]
    else:
        text = await client.vms_from(shown.newest + 1)
        vms = (await executor.run(partial(read_page, text))).vms
    return min((vm for vm in vms if vm.attributes.get(KEY) == key), default=None)


def with_key(template: str, key: str) -> str:
    """The template, in either of OpenNebula's forms, with the key in it."""
    if template.lstrip().startswith("<"):
        head, close, tail = template.rpartition("</")
        return f"{head}<{KEY}>{key}</{KEY}>{close}{tail}"
    return f'{template}\n{KEY}="{key}"\n'
