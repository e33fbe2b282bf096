"""All VMs of a pool in pages, each taken apart where the executor runs, and none missed."""

from functools import partial

from merkatd.opennebula.client import NOT_DONE, Client
from merkatd.opennebula.errors import MissingError
from merkatd.opennebula.transport import Executor
from merkatd.opennebula.vm_pool import NAMELESS, Page, VmRow, read_page
from merkatd.opennebula.waiting import in_parallel


async def read_vms(
    client: Client, executor: Executor, rows: int, state: int = NOT_DONE
) -> tuple[list[VmRow], dict[int, str]]:
    """The VMs, and those that could not be read with the reason.

    Pages are counted from the newest VM. When VMs vanish between two calls the rest moves up,
    and a page that began where the last one ended would leave some out. So each page begins
    with the last VM of the one before; where that is gone we go back until a VM is known again.
    """
    vms: dict[int, VmRow] = {}
    ailing: dict[int, str] = {}
    start, last = 0, None
    while True:
        text = await client.vm_page(start, rows, state)
        page: Page = await executor.run(partial(read_page, text))
        if page.short:
            await _complete(client, executor, page)
        if last is not None and start > 0 and max(page.ids, default=NAMELESS) < last:
            start = max(start - rows // 2, 0)
            continue
        vms |= {vm.id: vm for vm in page.vms}
        ailing |= page.ailing
        if len(page.ids) < rows:
            break
        last = min(vm for vm in page.ids if vm != NAMELESS)
        start += len(page.ids) - 1
    return list(vms.values()), {vm: why for vm, why in ailing.items() if vm not in vms}


async def _complete(client: Client, executor: Executor, page: Page) -> None:
    """Ask for each VM of which the server's pool shows only an outline, as before 5.10."""
    short = sorted(page.short - {NAMELESS})
    texts = await in_parallel(_whole(client, vm) for vm in short)
    pool = f"<VM_POOL>{''.join(texts)}</VM_POOL>"
    full: Page = await executor.run(partial(read_page, pool))
    page.vms = [vm for vm in page.vms if vm.id not in page.short] + full.vms
    page.ailing = {vm: why for vm, why in page.ailing.items() if vm not in page.short}
    page.ailing |= full.ailing


async def _whole(client: Client, vm: int) -> str:
    """The VM's own page; nothing where it is gone meanwhile."""
    try:
        return await client.vm(vm)
    except MissingError:
        return ""
