"""History records of VMs: when they ran, from `one.vm.info`, pools or `one.vmpool.accounting`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter

from twisted.logger import Logger

from merkatd.base.clock import Clock, Executor
from merkatd.base.deferreds import few_at_once
from merkatd.opennebula.pools.forged_texts import check
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import OneError
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    UnreadableError,
    only_child,
    rows,
    whole_number,
)
from merkatd.scheduler.base.ports import (
    NO_RECORD,
    CloudUnreachableError,
    GuestRecord,
    Histories,
    VmChange,
)

_log = Logger()

_FEW = 50
"""The most VMs that are read one by one. For more VMs a single call is cheaper, although it returns
all running VMs, with their templates in each record."""
_AT_ONCE = 4
"""The most texts of single VMs in memory at once: each may be as long as an answer."""
_PATIENCE_S = 20.0
"""The longest time that a period waits for the histories of single VMs."""
_SHORTEST = 200
"""A length below that of any record as OpenNebula writes it, in characters."""
_CLOCKS_DIFFER_S = 3600
"""The assumed largest difference of OpenNebula's clock and the daemon's, when records are cut off
by time."""


_OF_A_RECORD = ("SEQ", "RSTIME", "RETIME")
_PLACE = ("HID", "DS_ID", "ACTION")
_USED = (*_OF_A_RECORD, "ACTION")
_KINDS = {
    21: VmChange.DISK,
    23: VmChange.NETWORK,
    35: VmChange.SIZE,
    51: VmChange.NETWORK,
}
"""The changes that concern a VM's charge, by action. The record after it has the change."""
_CHANGES = frozenset(
    {
        *(21, 22, 23, 24, 46, 47, 51),  # disks, NICs and aliases: attached, detached, updated
        *(25, 26, 29),  # snapshots of disks, and their sizes
        35,  # the VM's size
        50,  # a backup
    }
)
"""The actions that change a VM while its guest runs. OpenNebula divides its record there."""
_MIGRATIONS = frozenset({1, 2})
"""The actions that migrate a guest. If that fails, the guest goes on in the next record but one;
the record between them has no start."""


def last_record(records: Element | None) -> Mapping[str, str] | None:
    """Return the used parts of the last record by name, None without a record.

    This runs for every VM in every period, so it reads all parts in a single pass.
    """
    if records is None or len(records) == 0:
        return None
    return _parts(records[-1], *_OF_A_RECORD, *_PLACE)


def record_of(parts: Mapping[str, str] | None) -> GuestRecord:
    """Return when a VM ran, from the parts of a record."""
    if parts is None:
        return NO_RECORD
    seq, ran_from_s, ran_until_s = (whole_number(parts.get(name)) or 0 for name in _OF_A_RECORD)
    return GuestRecord(seq, ran_from_s, ran_until_s)


def _records(shown: Iterable[Mapping[str, str]]) -> list[GuestRecord]:
    """Return the records of one VM from their parts, in the order of their numbers."""
    records: list[GuestRecord] = []
    last, action, change = NO_RECORD, None, None
    for record, parts in sorted(
        ((record_of(record_element), record_element) for record_element in shown), key=itemgetter(0)
    ):
        # If a guest is off and starts again within a second, its record has another action.
        later = record.seq - last.seq
        continues = (later == 1 and action in _CHANGES) or (later == 2 and action in _MIGRATIONS)
        goes_on = continues and last.ran_until_s == record.ran_from_s > 0
        records.append(record._replace(goes_on=goes_on, change=change))
        now = whole_number(parts.get("ACTION"))
        change = _KINDS.get(now or 0)
        if record.ran_from_s > 0:
            last, action = record, now
    return records


def _parts(element: Element, *names: str) -> Mapping[str, str]:
    return {child.tag: child.text or "" for child in element.iterchildren(*names, reversed=True)}


async def read_histories(
    client: Client, executor: Executor, clock: Clock, vms: Collection[int], since_s: float
) -> Histories:
    """Return the history records of these VMs, also of DONE ones. Raise CloudUnreachableError.

    VMs whose records can't be read are left out without any effect on others: the records contain
    owners' texts, as long as OpenNebula accepts them.
    """
    if not vms:
        return {}
    if len(vms) > _FEW:
        try:
            text = await client.accounting(max(int(since_s) - _CLOCKS_DIFFER_S, 0))
            return await executor.run(lambda: _of_many(text, frozenset(vms)))
        except (OneError, BrokenError, UnreadableError, CloudUnreachableError) as error:
            _log.warn("The history records can't be read in a single call: {why}", why=str(error))
    from_s = int(since_s) - _CLOCKS_DIFFER_S
    until_s = clock.seconds() + _PATIENCE_S
    histories: dict[int, Sequence[GuestRecord]] = {}
    wanted = sorted(vms)
    for start in range(0, len(wanted), _FEW):
        some = wanted[start : start + _FEW]
        if clock.seconds() > until_s:
            _log.warn(
                "The history records of {count} VMs are not read, because reading takes too long."
                " These VMs count as running all the time",
                count=len(wanted) - start,
            )
            break
        reads = (_read(client, executor, vm, from_s) for vm in some)
        read = await few_at_once(reads, _AT_ONCE)
        histories |= {vm: rows for vm, rows in zip(some, read, strict=True) if rows is not None}
    return histories


async def _read(
    client: Client, executor: Executor, vm: int, from_s: int
) -> Sequence[GuestRecord] | None:
    """Read the records of a VM since then, None if OpenNebula refuses or they can't be read.

    The VM's text may be long: only the records are kept.
    """
    try:
        text = await client.vm(vm)
    except OneError as error:
        _log.warn("The history of VM {vm} can't be read: {why}", vm=vm, why=str(error))
        return None
    return await executor.run(partial(_of_one, text, from_s))


def _of_one(text: str, from_s: int) -> Sequence[GuestRecord] | None:
    """Return the records that had not ended by then, and the one before them.

    None if they are unreadable or forged (Note [Texts that forge]).
    """
    try:
        vm = only_child(text, "VM")
        check(vm, text.encode("utf-8", "replace"))
    except (BrokenError, UnreadableError):
        return None
    there = list(vm.iterchildren("HISTORY_RECORDS"))
    if len(there) > 1:
        return None
    records = there[0] if there else None
    if records is None:
        return []
    if len(records) * _SHORTEST > len(text):
        return None
    shown = (_parts(row, *_USED) for row in records.iterchildren("HISTORY", reversed=True))
    # A VM that was resumed often for years has many more. Their number is no limit: an owner can
    # add hundreds in a period, for example by changes of a VM that is off.
    return _records(_since(shown, from_s))


def _since(shown: Iterable[Mapping[str, str]], from_s: int) -> Iterator[Mapping[str, str]]:
    """Yield records, newest first, down to the first that ended before.

    That record has the action with which the next one begins.
    """
    for parts in shown:
        yield parts
        if 0 < record_of(parts).ran_until_s < from_s:
            return


def _of_many(text: str, wanted: frozenset[int]) -> Histories:
    parts_of_vm: dict[int, list[Mapping[str, str]]] = {}
    for element in rows(text, "HISTORY_RECORDS", "HISTORY"):
        vm = whole_number(element.findtext("OID"))
        if vm in wanted:
            parts_of_vm.setdefault(vm, []).append(_parts(element, *_USED))
    return {vm: _records(shown) for vm, shown in parts_of_vm.items()}
