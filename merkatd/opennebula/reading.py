"""All VMs of a pool in pages, each taken apart where the executor runs, and none missed."""

from functools import partial

from merkatd.opennebula.client import NOT_DONE, Client
from merkatd.opennebula.transport import Executor
from merkatd.opennebula.vm_pool import NAMELESS, Page, VmRow, read_page


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
