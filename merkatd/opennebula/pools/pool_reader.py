"""The reader of the VM pool: pages of VMs, parsed on the executor, without gaps.

Tenants' texts may be too long to read, or may not be XML. The reader finds such a VM by halving the
range of ids that contains it. From then on it reads the ranges of the other VMs, and for the VM
itself OpenNebula's own record, until it is time to try its texts again.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from merkatd.base.clock import Clock, Executor
from merkatd.base.deferreds import in_parallel
from merkatd.opennebula.pools.unread_vms import (
    MOST_OF_AN_OWNER,
    SeldomRead,
    read_record,
    vms_beyond_bound,
)
from merkatd.opennebula.pools.vm_pool import (
    LONG,
    NAMELESS,
    GarbledError,
    Page,
    VmRow,
    read_page,
    read_vm,
)
from merkatd.opennebula.rpc.client import ANY_STATE, NOT_DONE, Client
from merkatd.opennebula.rpc.errors import LongAnswerError, OneMissingError
from merkatd.opennebula.rpc.xml_elements import BrokenError, UnreadableError

_HIGHEST = re.compile(r"<VM_POOL><VM><ID>(\d{1,18})</ID>")
_HEAD = 1 << 8
_LENGTH = f"its texts take more than {LONG >> 20} MiB"
_SUM = f"the texts of its owner's VMs take more than {MOST_OF_AN_OWNER >> 20} MiB in all"

_Range = tuple[int, int | None]
"""The lowest and the highest id of a range; the highest is None for an open range."""


@dataclass(slots=True)
class PoolReading:
    """The VMs of a pool."""

    vms: dict[int, VmRow] = field(default_factory=dict)
    ailing: dict[int, str] = field(default_factory=dict)
    """The reasons by VM id why not even OpenNebula's record of the VM could be read."""


class VmReader:
    """Reads all VMs in each period."""

    def __init__(self, client: Client, executor: Executor, clock: Clock, rows: int) -> None:
        """Request VMs in pages of `rows`."""
        self._client = client
        self._executor = executor
        self._clock = clock
        self._rows = rows
        self._resting = SeldomRead()
        self._known: Sequence[int] = ()
        """The ids of the last reading, ascending."""

    async def read(self, state: int = NOT_DONE) -> PoolReading:
        """Return the VMs in this state. Raise BrokenError if a pool is incomplete."""
        reading = await self._all(state)
        self._known = await self._executor.run(lambda: sorted(reading.vms))
        return reading

    async def newer(self, vm: int) -> list[VmRow]:
        """Return all readable VMs with ids above `vm`, also DONE ones."""
        pages = await self.range(vm + 1, None, ANY_STATE)
        return [row for page in pages for row in page.vms]

    async def _all(self, state: int) -> PoolReading:
        if not self._resting:
            try:
                return await self._own_words(await self._pages(state), state)
            except (LongAnswerError, GarbledError):
                pass  # a single VM may be the cause: find it below
        # Another reading may forget a VM before the pages are read.
        resting = {vm: self._resting.why(vm) for vm in self._resting.at(self._clock.seconds())}
        pages = [
            page
            for bounds in _around(self._known, list(resting), self._rows)
            for page in await self.range(*bounds, state)
        ]
        merged = Page()
        for page in pages:
            _add(merged, page)
        merged.ailing |= resting
        return await self._own_words(merged, state)

    async def _pages(self, state: int) -> Page:
        """Read the whole pool, page by page.

        Pages count from the newest VM. If VMs vanish between two calls, the others move up, and the
        next page would skip some. So each page begins with the last VM of the page before. If that
        VM is gone, the reader goes back by half a page until the pages overlap again.
        """
        pool, start, last = Page(), 0, None
        while True:
            text = await self._client.vm_page(start, self._rows, state)
            page = await self._taken_apart(text)
            if last is not None and start > 0 and max(page.ids, default=NAMELESS) < last:
                start = max(start - self._rows // 2, 0)
                continue
            _add(pool, page)
            if len(page.ids) < self._rows:
                return pool
            last = min(vm for vm in page.ids if vm != NAMELESS)
            start += len(page.ids) - 1

    async def range(self, low: int, high: int | None, state: int) -> list[Page]:
        """Return the VMs with these ids; unreadable ones are put to rest."""
        try:
            text = await self._client.vm_range(low, high, state)
            head, why = text[:_HEAD], ""
            return [await self._taken_apart(text)]
        except LongAnswerError as error:
            head, why = error.head, _LENGTH
        except GarbledError as error:
            why = f"its texts are not XML ({error})"
        return await self._halves(low, head, why, state)

    async def _halves(self, low: int, head: str, why: str, state: int) -> list[Page]:
        """Read a range in two halves; `head` begins with its highest VM."""
        top = _HIGHEST.match(head)
        if top is None:
            raise BrokenError("VM_POOL does not begin with a VM")
        high = int(top[1])
        if high <= low:
            self._resting.rest(low, why, self._clock.seconds(), self._resting.kept(low))
            return [Page(ids=[low], ailing={low: why})]
        middle = (low + high) // 2
        upper = await self.range(middle + 1, high, state)
        return [*upper, *await self.range(low, middle, state)]

    async def _taken_apart(self, text: str) -> Page:
        page: Page = await self._executor.run(partial(read_page, text))
        if page.short:
            await self._complete(page)
        return page

    async def _own_words(self, page: Page, state: int) -> PoolReading:
        """Replace each unreadable VM by OpenNebula's own record of it."""
        now_s = self._clock.seconds()
        rows = await self._executor.run(lambda: {vm.id: vm for vm in page.vms})
        shorter = {vm: size for vm, size in page.lengths.items() if vm not in page.long}
        too_many = vms_beyond_bound(rows, shorter)
        self._resting.wake_but(page.long | too_many, rows.keys())
        for vm in sorted((page.long | too_many) & rows.keys()):
            self._resting.rest(vm, _SUM if vm in too_many else _LENGTH, now_s, rows[vm])
        for vm in sorted(page.long - rows.keys()):
            self._resting.rest(vm, page.ailing[vm], now_s, self._resting.kept(vm))
        ailing = {vm: why for vm, why in page.ailing.items() if vm not in rows}
        reading = PoolReading(rows, {vm: why for vm, why in ailing.items() if vm == NAMELESS})
        named = sorted(ailing.keys() - {NAMELESS})
        records = await in_parallel(self._record(vm, ailing[vm], state) for vm in named)
        for vm, record in zip(named, records, strict=True):
            if isinstance(record, str):
                reading.ailing[vm] = record
            elif record is None:
                self._resting.wake(vm)
            else:
                rows[vm] = record
        return reading

    async def _record(self, vm: int, why: str, state: int) -> VmRow | str | None:
        """Return OpenNebula's record of a VM, None if it is gone, or why it can't be read."""
        head, end = await self._client.vm_record(vm, state)
        try:
            return read_record(head, vm, why, self._resting.kept(vm), end)
        except UnreadableError as error:
            return str(error)

    async def _complete(self, page: Page) -> None:
        """Read each VM of which the pool has only an outline, as in servers before 5.10."""
        short = sorted(page.short - {NAMELESS})
        texts = await in_parallel(self._whole(vm) for vm in short)
        read = partial(_read_each, dict(zip(short, texts, strict=True)))
        full: Page = await self._executor.run(read)
        page.vms = [vm for vm in page.vms if vm.id not in page.short] + full.vms
        page.ailing = {vm: why for vm, why in page.ailing.items() if vm not in page.short}
        page.ailing |= full.ailing

    async def _whole(self, vm: int) -> str | None:
        """Return the VM's own text, None if the VM is gone, "" if the text is too long."""
        try:
            return await self._client.vm(vm)
        except OneMissingError:
            return None
        except LongAnswerError:
            return ""


def _read_each(texts: dict[int, str | None]) -> Page:
    page = Page()
    for vm, text in texts.items():
        try:
            row = None if text is None else read_vm(text)
        except (BrokenError, UnreadableError) as error:
            page.ailing[vm] = str(error) if text else _LENGTH
            continue
        if row is not None and row.id == vm:
            page.vms.append(row)
    return page


def _add(pool: Page, page: Page) -> None:
    pool.vms += page.vms
    pool.ids += page.ids
    pool.ailing |= page.ailing
    pool.long |= page.long
    pool.lengths |= page.lengths


def _around(known: Sequence[int], resting: Sequence[int], rows: int) -> Iterator[_Range]:
    """Yield ranges of ids without the resting VMs, each with about `rows` known ids."""
    ends = sorted({*resting, *(vm - 1 for vm in known[rows::rows])})
    low = 0
    skipped = frozenset(resting)
    for end in ends:
        high = end - 1 if end in skipped else end
        if high >= low:
            yield low, high
        low = max(low, end + 1)
    yield low, None
